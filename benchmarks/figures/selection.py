"""Which figures the READMEs show, and what they say of them in both languages. `readmes.py` looks the numbers up."""
# ruff: noqa: RUF001 - Chinese has punctuation of its own

from dataclasses import dataclass
from typing import Literal

Language = Literal["en", "zh"]
READMES: dict[Language, str] = {"en": "README.md", "zh": "README.zh-CN.md"}
HEADINGS: dict[Language, tuple[str, ...]] = {
    "en": ("what", "Cordwood", "the other way", "Cordwood is"),
    "zh": ("项目", "Cordwood", "对比方案", "相比对手"),
}
# Where {} is a ratio or a number.
WORDS: dict[Language, dict[str, str]] = {
    "en": {
        "colon": ": ",
        "comma": ", ",
        "smaller": "{}x smaller",
        "larger": "{}x larger",
        "speed": "{}x as fast",
        "quartiles": " ({} to {})",
        "count": "{} of {}",
        "machine": "Medians, taken in turns with the rival, after results were compared: {cores} cores, {where}. "
        "A ratio of speeds is the median over rounds, in most rows against whichever of the rival's settings was the "
        "fastest in each; so it is not the quotient of the two medians beside it; in parentheses are the quartiles, "
        "where they are more than a quarter apart or on both sides of 1. "
        "Better is **bold**, unless they leave that open. "
        "The links lead to the whole tables, with spread, versions, method and command.",
    },
    "zh": {
        "colon": "：",
        "comma": "、",
        # A word joiner: a narrow column must not be broken inside of a word.
        "smaller": "体&#8288;积 1/{}",
        "larger": "体&#8288;积 {} 倍",
        "speed": "速&#8288;度 {} 倍",
        "quartiles": "（{}–{}）",
        "count": "{} / {}",
        "machine": "均为中位数：先核对结果一致，再与对手交替计时；{cores} 核，{where}。"
        "速度之比是各轮比值的中位数，多数行里每轮都与对手当轮最快的设置相比，所以不等于旁边两个中位数之商；"
        "括号内为四分位数，仅在相差超过四分之一或分居 1 两侧时列出。"
        "**粗体**为更优的一方，四分位数分不出胜负时不标。"
        "链接指向完整的表格，内有离散程度、版本、方法和命令。",
    },
}


@dataclass(frozen=True)
class Figure:
    """Two rows of one table, and a column of it to show."""

    suite: str
    table: str  # some words of its title
    ours: str  # what stands in the first column of our row
    rival: str  # its row; "LitData*": the best one of those that begin so, since a rival may choose its settings
    column: str
    what: dict[Language, str]
    other: dict[Language, str]  # the rival's name in the README
    kind: Literal["size", "seconds", "rate", "share"]
    # "Times as fast", taken round by round: the goal that was judged by it (the best of the rival's ways in each
    # round), or the column of our row that has the time in parts of the rival's. Without either, the table's own
    # column of such ratios, if it has one.
    goal: str = ""
    time_of: str = ""


@dataclass(frozen=True)
class Count:
    """How many rows of a table say what they should."""

    suite: str
    table: str
    column: str
    good: str
    what: dict[Language, str]


def both(text: str) -> dict[Language, str]:
    """A name that is the same in both languages."""
    return {"en": text, "zh": text}


_STORY = "photographs of one class"
_FLOATS = "photographs as normalised float32, from the page cache"
_DISK = "photographs as normalised float32, 2,048 of them, from the disk"
_BALANCED = "ours, balanced, float32 stored"
_FFCV = "FFCV raw, NormalizeImage*"
_KEPT: dict[Language, str] = {
    "en": "1,300 prepared photographs (3x224x224, float32) on disk",
    "zh": "1,300 张预处理好的照片（3x224x224，float32）占用磁盘",
}
_FED: dict[Language, str] = {
    "en": "photographs fed to training, shuffled, float32: samples/s",
    "zh": "向训练供给照片（打乱顺序，float32）：样本/秒",
}
_BYTES: dict[Language, str] = {"en": "the same: bytes a photograph", "zh": "同上：每张照片的大小"}
_TOKENS = "512-token rows, shuffled"
_TOKENS_RAW: dict[Language, str] = {
    "en": 'rows of 512 token ids, shuffled, uncompressed (`goal="raw"`): rows/s',
    "zh": '每行 512 个 token id，打乱顺序，不压缩（`goal="raw"`）：行/秒',
}
_FFCV_NAME: dict[Language, str] = {"en": "FFCV, uncompressed uint8", "zh": "FFCV（不压缩的 uint8）"}

FIGURES: tuple[Figure | Count, ...] = (
    Figure(
        "pack", _STORY, "cw.pack, balanced", "torch.save(batch[b])", "bytes", _KEPT,
        {"en": "`torch.save(batch[b])`, counted from a few files", "zh": "`torch.save(batch[b])`（由几个文件推算）"},
        "size",
    ),
    Figure(
        "pack", _STORY, "cw.pack, balanced", "torch.save(batch[b].clone())", "bytes", _KEPT,
        both("`torch.save(batch[b].clone())`"), "size",
    ),
    Figure(
        "pack", _STORY, "cw.pack, balanced", "the JPEG files, prepared again", "bytes", _KEPT,
        {"en": "the JPEG files they came from", "zh": "原来的 JPEG 文件"}, "size",
    ),
    Figure(
        "pack", "JPEG files to 3x224x224", "cw.pack, two workers", "LitData optimize, two workers", "samples a second",
        {"en": "preparing and packing a folder of JPEG files: samples/s",
         "zh": "预处理并打包一个 JPEG 文件夹：样本/秒"},
        both("LitData `optimize`"), "rate", goal="pack-litdata",
    ),
    Figure(
        "pack", "JPEG files to 3x224x224", "cw.pack, two workers", "the same, a pool of two", "samples a second",
        {"en": "preparing and packing a folder of JPEG files: samples/s",
         "zh": "预处理并打包一个 JPEG 文件夹：样本/秒"},
        {"en": "`torch.save` in a pool of two", "zh": "两个进程的进程池加 `torch.save`"}, "rate",
    ),
    Figure(
        "feed", _FLOATS, _BALANCED, "one .pt a sample*", "samples a second", _FED,
        {"en": "a `.pt` a sample, DataLoader", "zh": "每个样本一个 `.pt`，DataLoader"}, "rate",
        goal="feed-balanced-files",
    ),
    Figure(
        "feed", _FLOATS, _BALANCED, "one zipped .pt a sample*", "samples a second", _FED,
        {"en": "a zipped `.pt` a sample, DataLoader", "zh": "每个样本一个 zip 压缩的 `.pt`，DataLoader"}, "rate",
        goal="feed-balanced-zipped",
    ),
    Figure(
        "feed", _FLOATS, _BALANCED, "LitData*", "samples a second", _FED,
        {"en": "LitData, uncompressed float32", "zh": "LitData（不压缩的 float32）"}, "rate",
        goal="feed-balanced-litdata",
    ),
    Figure(
        "feed", _FLOATS, _BALANCED, "TensorDict memmap", "samples a second", _FED,
        {"en": "TensorDict memory map, uncompressed float32", "zh": "TensorDict 内存映射（不压缩的 float32）"},
        "rate", goal="feed-balanced-tensordict",
    ),
    Figure(
        "feed", _FLOATS, _BALANCED, "LMDB*", "samples a second", _FED,
        {"en": "LMDB, uncompressed float32", "zh": "LMDB（不压缩的 float32）"}, "rate",
    ),
    Figure(
        "feed", _FLOATS, _BALANCED, _FFCV, "samples a second", _FED, _FFCV_NAME, "rate", goal="feed-balanced-ffcv",
    ),
    Figure("feed", _FLOATS, _BALANCED, _FFCV, "bytes a sample", _BYTES, _FFCV_NAME, "size"),
    Figure(
        "feed", _FLOATS, "ours, raw, uint8 stored, normalize", _FFCV, "samples a second",
        {"en": 'the same, both uncompressed uint8 (`goal="raw"`): samples/s',
         "zh": '同上，双方都是不压缩的 uint8（`goal="raw"`）：样本/秒'},
        both("FFCV"), "rate",
    ),
    Figure(
        "feed", _DISK, f"{_BALANCED}, memory=mmap", "FFCV raw, NormalizeImage, random", "samples a second",
        {"en": "the same, with nothing in the page cache: samples/s", "zh": "同上，页缓存为空：样本/秒"}, _FFCV_NAME,
        "rate", goal="feed-cold-speed-ffcv",
    ),
    Figure(
        "feed", "Training a small convnet", "ours, balanced, float32 stored",
        "JPEG files, Pillow, DataLoader*", "of the time, steps wait",
        {"en": "training a small convnet: time spent waiting for data", "zh": "训练小卷积网络：等待数据的时间占比"},
        {"en": "JPEG files, prepared each time in a DataLoader", "zh": "JPEG 文件，DataLoader 每次重新预处理"}, "share",
    ),
    Figure(
        "feed", _TOKENS, "ours, raw", "LMDB*", "samples a second", _TOKENS_RAW, both("LMDB"), "rate",
        goal="feed-tokens-lmdb",
    ),
    Figure(
        "feed", _TOKENS, "ours, raw", "FFCV, NDArrayField*", "samples a second", _TOKENS_RAW,
        both("FFCV"), "rate", goal="feed-tokens-ffcv",
    ),
    Figure(
        "feed", _TOKENS, "ours, fast", "FFCV, NDArrayField*", "samples a second",
        {"en": 'the same, compressed with `goal="fast"`: rows/s', "zh": '同上，用 `goal="fast"` 压缩：行/秒'},
        both("FFCV"), "rate",
    ),
    Figure(
        "tensors", "real float32 weights in one file", "cw.save to .cord, balanced", "torch.save", "bytes",
        {"en": "real float32 weights in a file", "zh": "真实的 float32 权重存成一个文件"}, both("`torch.save`"), "size",
    ),
    Figure(
        "tensors", "Loading a 500 MB state_dict", "cw.load of .cord, balanced", "torch.load", "seconds",
        {"en": "loading 500 MB of such weights", "zh": "加载 500 MB 这样的权重"}, both("`torch.load`"),
        "seconds", time_of="of torch.load",
    ),
    Count(
        "doctor", "Planted faults", "found", "yes",
        {"en": "the doctor on scripts with a planted fault: found at its line, in each of five runs",
         "zh": "诊断埋有问题的脚本：五次运行每次都找到问题并定位到行"},
    ),
    Count(
        "doctor", "Healthy scripts", "findings above information", "none",
        {"en": "the doctor on healthy scripts: no false finding in five runs",
         "zh": "诊断健康的脚本：五次运行均无误报"},
    ),
)  # fmt: skip
