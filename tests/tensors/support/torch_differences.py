"""Which of PyTorch's tests fail with `cw.save` and `cw.load`, and the words of docs/tensors.md that explain each.

Of PyTorch 2.13.0: `torch_suite` runs them.
"""

from typing import Final

RUN: Final = 182  # tests that pass with torch's own functions, without a GPU, the network and the two of several GB

_OLD, _NEW, _SUBCLASS = "TestOldSerialization.test_", "TestSerialization.test_", "TestSubclassSerialization.test_"


def _of(*names: str) -> list[str]:
    """The same test for both of torch's formats."""
    return [prefix + name for name in names for prefix in (_OLD, _NEW)]


WORDS: Final = 'messages such as "Weights only load failed"'
DEVICES: Final = "`RuntimeError` for a device that is missing"
DAMAGE: Final = "`RuntimeError` or `EOFError` for a damaged or an empty file"
_BY_PT: Final = {
    WORDS: [
        _NEW + "weights_only_assert",
        _NEW + "weights_only_blocked_func_error_msg",
        _NEW + "weights_only_env_variables_force_weights_only_False",
        _NEW + "weights_only_env_variables_force_weights_only_True",
        _NEW + "weights_only_safe_globals_blocklist",
        _NEW + "weights_only_safe_globals_build",
        _NEW + "weights_only_safe_globals_build_with_slots_slots_all",
        _NEW + "weights_only_safe_globals_build_with_slots_slots_some",
        _NEW + "weights_only_safe_globals_newobj",
        _SUBCLASS + "safe_globals_context_manager_weights_only",
        _SUBCLASS + "safe_globals_for_weights_only",
        _SUBCLASS + "weights_only_invalid_persistent_id_type_in_error_message",
        _SUBCLASS + "weights_only_setitem_on_non_dict_rejected_opcode0_opcode_name_SETITEM",
        _SUBCLASS + "weights_only_setitem_on_non_dict_rejected_opcode1_opcode_name_SETITEMS",
    ],
    DEVICES: _of("load_nonexistent_device", "serialization_filelike_exceptions"),
    DAMAGE: [_SUBCLASS + "weights_only_arbitrary_numel_in_persistent_id_rejected"],
    "`pickle_module=`, `pickle_protocol=` and `encoding=`": [
        *_of("pickle_module", "serialization", "serialization_safe"),
        *_of("serialization_sparse", "serialization_sparse_safe"),
        _NEW + "weights_only_error_unsafe_global_False",
        _NEW + "weights_only_error_unsafe_global_True",
    ],
    "file objects that cannot seek are refused": _of("load_error_msg"),
    "two dtypes over one storage are refused": _of("save_different_dtype_error"),
    "TorchScript archives are passed on": [_NEW + "serialization_zipfile_actually_jit"],
    "`torch.save` of a whole module in the old format keeps its source": [
        _OLD + "serialization_container",
        _OLD + "serialization_container_filelike",
    ],
    "`torch.serialization.skip_data` writes a file without its data": [
        *_of("skip_data_load"),
        _NEW + "skip_data_serialization_materialize_fake_False",
        _NEW + "skip_data_serialization_materialize_fake_True",
        _NEW + "skip_data_serialization_preserves_views_materialize_fake_True",
    ],
    "`config.save.compute_crc32 = False`": [
        _NEW + "crc32_options_compute_crc32_False_filename_False",
        _NEW + "crc32_options_compute_crc32_False_filename_True",
    ],
    "`set_default_mmap_options(MAP_SHARED)`": [
        _NEW + "serialization_mmap_loading",
        _NEW + "serialization_mmap_loading_ctx",
    ],
    "a damaged record header stops every load": [_NEW + "corrupted_checkpoint_error_message"],
}
_BY_CORD: Final = {
    "A `.cord` file has its own layout": [
        _NEW + "filewriter_metadata_writing_filename_False",
        _NEW + "filewriter_metadata_writing_filename_True",
        _NEW + "get_unsafe_globals_in_checkpoint",
        _NEW + "has_format_version",
        _NEW + "load_njt_weights_only_should_import_False",
        _NEW + "load_njt_weights_only_should_import_True",
        _NEW + "serialization_byteorder_mark",
        _NEW + "storage_alignment_load_mode_fake_tensor_mode",
        _NEW + "storage_alignment_load_mode_map_location_meta",
    ],
    "A `.cord` file or a `.pt` file that another one follows": [
        _OLD + "serialization_offset",
        _OLD + "serialization_offset_filelike_weights_only_False",
        _OLD + "serialization_offset_filelike_weights_only_True",
    ],
}
_PT: Final = {name: words for words, names in _BY_PT.items() for name in names}
_CORD: Final = _PT | {name: words for words, names in _BY_CORD.items() for name in names}
EXPLAINED: Final[dict[str, dict[str, str]]] = {"torch": {}, "pt": _PT, "cord": _CORD}
