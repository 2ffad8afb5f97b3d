"""Every architecture of the installed mlx-lm as a model of a few thousand weights.

A configuration has some hundred names for a dozen things. `SIZES` says by name how small each is; `OTHERWISE` what
an architecture needs besides. What still does not build says why, and is listed as such in docs/models.md.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pkgutil
from typing import Any

import mlx.core as mx
import mlx_lm.models

VOCABULARY = 64
LAYERS = 4
WINDOW = 16

# The heads are of 32, so that storage can be quantised; layers alternate where a model has kinds of them.
SIZES: dict[str, Any] = {
    **dict.fromkeys(("vocab_size", "vocab_size_per_layer_input", "padded_vocab_size"), VOCABULARY),
    **dict.fromkeys(("hidden_size", "hidden_dim", "model_dim", "n_embd", "d_model", "block_dim", "dim"), 64),
    **dict.fromkeys(("num_hidden_layers", "num_layers", "n_layer", "n_layers", "num_transformer_layers"), LAYERS),
    **dict.fromkeys(("num_attention_heads", "num_heads", "n_head", "n_heads", "swa_num_attention_heads"), 4),
    **dict.fromkeys(("num_key_value_heads", "num_kv_heads", "n_kv_heads", "swa_num_key_value_heads"), 2),
    **dict.fromkeys(
        (
            "intermediate_size",
            "intermediate_size_mlp",
            "ff_intermediate_size",
            "ffn_hidden_size",
            "expert_ffn_hidden_size",
            "moe_intermediate_size",
            "shared_intermediate_size",
            "shared_expert_intermediate_size",
            "moe_shared_expert_intermediate_size",
            "n_inner",
            "d_ff",
        ),
        64,
    ),
    **dict.fromkeys(("head_dim", "swa_head_dim", "v_head_dim", "swa_v_head_dim", "attention_head_dim"), 32),
    **dict.fromkeys(("qk_rope_head_dim", "qk_nope_head_dim", "rotary_dim", "index_head_dim"), 16),
    **dict.fromkeys(("kv_lora_rank", "q_lora_rank"), 32),
    **dict.fromkeys(("num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts"), 4),
    **dict.fromkeys(("num_experts_per_tok", "moe_topk", "moe_k", "top_k_experts"), 2),
    **dict.fromkeys(
        ("n_shared_experts", "num_shared_experts", "num_shared_expert", "n_group", "topk_group", "moe_layer_freq"),
        1,
    ),
    **dict.fromkeys(("first_k_dense_replace", "num_dense_layers", "moe_layer_start_index"), 1),
    **dict.fromkeys(("decoder_sparse_step", "moe_layer_interval", "interleave_moe_layer_step"), 1),
    **dict.fromkeys(
        ("rms_norm_eps", "layer_norm_epsilon", "layer_norm_eps", "norm_eps", "layernorm_epsilon"), 1e-5
    ),
    **dict.fromkeys(("rope_theta", "rotary_emb_base", "swa_rope_theta", "rope_local_base_freq"), 10000.0),
    **dict.fromkeys(("max_position_embeddings", "n_positions", "n_ctx", "model_max_length", "max_seq_len"), 1024),
    **dict.fromkeys(("sliding_window", "sliding_window_size", "attention_window_size", "window_size"), WINDOW),
    **dict.fromkeys(("attention_chunk_size",), WINDOW),
    **dict.fromkeys(("attention_multiplier", "routed_scaling_factor", "partial_rotary_factor", "rotary_pct"), 0.5),
    **dict.fromkeys(("logits_scaling", "embedding_multiplier", "residual_multiplier", "scale_depth"), 1.0),
    **dict.fromkeys(("scale_emb", "dim_model_base", "query_pre_attn_scalar"), 32),
    **dict.fromkeys(
        (
            "attention_bias",
            "mlp_bias",
            "use_bias",
            "conv_bias",
            "use_conv_bias",
            "mamba_proj_bias",
            "use_qk_norm",
            "qk_norm",
            "post_norm",
            "add_swa_attention_sink_bias",
            "add_full_attention_sink_bias",
            "mla_scale_q_lora",
            "mla_scale_kv_lora",
            "use_mixed_mlp_moe",
            "linear_allow_neg_eigval",
        ),
        False,
    ),
    "norm_topk_prob": True,
    "tie_word_embeddings": False,
    "attention_method": "MLA",
    "topk_method": "noaux_tc",
    "scoring_func": "sigmoid",
    "hidden_act": "silu",
    **dict.fromkeys(("conv_kernel", "conv_L_cache", "conv1d_width", "mamba_d_conv", "linear_conv_kernel_dim"), 4),
    **dict.fromkeys(("state_size", "ssm_state_size", "mamba_d_state"), 16),
    **dict.fromkeys(("linear_num_key_heads", "linear_num_value_heads", "mamba_num_heads"), 2),
    **dict.fromkeys(("linear_key_head_dim", "linear_value_head_dim", "mamba_head_dim"), 32),
    **dict.fromkeys(("mamba_expand", "n_groups", "group_norm_size"), 1),
    **dict.fromkeys(("time_step_rank", "a_low_rank_dim", "v_low_rank_dim", "gate_low_rank_dim"), 16),
    **dict.fromkeys(("sliding_window_pattern", "layer_group_size", "global_attn_every_n_layers"), 2),
    **dict.fromkeys(("dense_attention_every_n_layers", "full_attention_interval", "ffn_dim_divisor"), 2),
    **dict.fromkeys(("zero_expert_num", "num_nextn_predict_layers"), 0),
    "layer_types": ["sliding_attention", "full_attention"] * (LAYERS // 2),
    "mlp_only_layers": [],
}

_YARN = {
    "type": "yarn",
    "rope_type": "yarn",
    "factor": 2.0,
    "mscale": 1.0,
    "mscale_all_dim": 1.0,
    "rope_theta": 10000.0,
    "original_max_position_embeddings": 512,
    "llama_4_scaling_beta": 0.1,
}
_BY_TYPE = {kind: {"rope_theta": 10000.0} for kind in ("sliding_attention", "full_attention")}
_MLA = {"rope_scaling": _YARN, "rope_parameters": _YARN}
_LINEAR = {
    "num_heads": 2,
    "head_dim": 32,
    "short_conv_kernel_size": 4,
    "kda_layers": [1, 3],
    "full_attn_layers": [2, 4],
}
_LFM2 = {
    "block_multiple_of": 32,
    "block_ffn_dim_multiplier": 1.0,
    "block_auto_adjust_ff_dim": True,
    "use_expert_bias": True,
    "full_attn_idxs": [1, 3],
    "layer_types": ["conv", "full_attention"] * 2,
}
_LLAMA4 = {"rope_scaling": None, "no_rope_layers": [1, 0] * 2, "num_experts_per_tok": 1}

# What an architecture needs besides, or in place of the sizes above.
OTHERWISE: dict[str, dict[str, Any]] = {
    "afm7": {"num_kv_reuse_layers": 2},
    "baichuan_m1": {"sliding_window_layers": [0, 2], "conv_window": 2},
    "cohere2": {"hidden_size": 128},
    "dbrx": {
        "ffn_config": {"ffn_hidden_size": 64, "moe_num_experts": 4, "moe_top_k": 2},
        "attn_config": {"kv_n_heads": 2, "clip_qkv": 8.0, "rope_theta": 10000.0},
    },
    "deepseek_v2": _MLA,
    "exaone": {"hidden_size": 128, "head_dim": None},
    "exaone4": {"rope_scaling": None, "sliding_window_pattern": "LG"},
    "exaone_moe": {"is_moe_layer": [False, True] * 2},
    "gemma3n": {
        "num_hidden_layers": 6,
        "num_kv_shared_layers": 2,
        "layer_types": ["sliding_attention", "sliding_attention", "full_attention"] * 2,
        "activation_sparsity_pattern": [0.0] * 6,
        "hidden_size_per_layer_input": 16,
        "final_logit_softcapping": 30.0,
        "altup_num_inputs": 2,
        "altup_coef_clip": 100.0,
        "altup_correct_scale": True,
        "altup_active_idx": 0,
        "laurel_rank": 8,
        "rope_scaling": None,
    },
    "gemma4": {"num_kv_shared_layers": 2},
    "gemma4_text": {"num_kv_shared_layers": 2},
    "glm4_moe": {"rope_scaling": None},
    "glm_moe_dsa": {**_MLA, "index_n_heads": 2, "index_topk": 8},
    "granitemoehybrid": {
        "layer_types": ["mamba", "attention"] * 2,
        "mamba_n_heads": 4,
        "mamba_d_head": 32,
        "mamba_n_groups": 1,
    },
    "hunyuan": {
        "use_cla": True,
        "cla_share_factor": 2,
        "rope_scaling": {"type": "dynamic", "factor": 1.0, "alpha": 1.0},
    },
    "jamba": {
        "attn_layer_offset": 1,
        "attn_layer_period": 2,
        "expert_layer_offset": 1,
        "expert_layer_period": 2,
    },
    "kimi_k3": {"hidden_act": "situ", "linear_attn_config": _LINEAR, "num_experts_per_token": 2},
    "kimi_linear": {"linear_attn_config": _LINEAR},
    "lfm2": _LFM2,
    "lfm2-vl": _LFM2,
    "lfm2_moe": _LFM2,
    "lille-130m": {"block_size": 1024},
    "llama4": _LLAMA4,
    "llama4_text": _LLAMA4,
    "longcat_flash": {"zero_expert_type": "identity", "mla_scale_q_lora": True, "mla_scale_kv_lora": True},
    "longcat_flash_ngram": {"mla_scale_q_lora": True, "mla_scale_kv_lora": True},
    "mamba2": {"time_step_limit": (0.0, 10.0)},
    "mellum": {"rope_parameters": _BY_TYPE},
    "mimo_v2_flash": {"hybrid_layer_pattern": [1, 0] * 2, "moe_layer_freq": [0, 1] * 2},
    "minicpm3": {"rope_scaling": {"original_max_position_embeddings": 512}},
    "minimax_m3_vl": {"moe_layer_freq": [0, 1] * 2},
    "ministral3": {"rope_parameters": _YARN},
    "mistral4": _MLA,
    "muse_spark": {
        "post_norm_eps": 1e-5,
        "rope_parameters": {"rope_theta": 10000.0},
        "layer_rope_theta": [10000.0] * LAYERS,
        "final_logit_softcapping": 30.0,
        "output_multiplier": 1.0,
        "moe_hidden_size": 64,
        "num_shared_experts": 0,
    },
    "nemotron-nas": {
        "block_configs": [
            {
                "attention": {"no_op": False, "replace_with_linear": False, "n_heads_in_group": 2},
                "ffn": {"no_op": False, "replace_with_linear": False, "ffn_mult": 1.0},
            }
        ]
        * LAYERS,
    },
    "nemotron_h": {"layer_types": ["mamba", "attention"] * 2},
    "openelm": {"num_query_heads": [4] * LAYERS, "num_kv_heads": [2] * LAYERS, "ffn_multipliers": [1.0] * LAYERS},
    "phi3small": {"gegelu_limit": 20.0, "vocab_size": 100352},  # it hides tokens by their number
    "plamo": {"n_shared_head": 2},
    "qwen": {"kv_channels": 16, "intermediate_size": 128},
    "recurrent_gemma": {
        "logits_soft_cap": 30.0,
        "block_types": ["recurrent", "attention"],
        "attention_bias": False,
    },
    "rwkv7": {"decay_low_rank_dim": 16},
    "spark2_5": {"rope_parameters": _BY_TYPE, "hidden_act": "gelu"},
    "stablelm": {"use_qkv_bias": False},
    "step3p5": {"num_attention_groups": 2, "moe_top_k": 2, "moe_num_experts": 4},
}


def architectures() -> list[str]:
    """The names of mlx-lm's models."""
    found = []
    for module in sorted(pkgutil.iter_modules(mlx_lm.models.__path__), key=lambda each: each.name):
        source = importlib.util.find_spec(f"mlx_lm.models.{module.name}")  # type: ignore[attr-defined]
        if source is not None and "class ModelArgs" in source.loader.get_source(source.name):
            found.append(module.name)
    return found


def _sizes_of(module: Any, args: Any, changes: dict[str, Any]) -> dict[str, Any]:
    names = {field.name for field in dataclasses.fields(args)} if dataclasses.is_dataclass(args) else set()
    names = names or set(inspect.signature(args).parameters)
    sizes = {name: value for name, value in {**SIZES, **changes}.items() if name in names}
    sizes.setdefault("model_type", module.__name__.rpartition(".")[2])
    if "text_config" in names:
        inner = getattr(module, "TextArgs", getattr(module, "TextConfig", None))
        text = {**SIZES, "model_type": module.__name__.rpartition(".")[2], **changes}
        sizes["text_config"] = text if inner is None else _sizes_of(module, inner, changes)
    return sizes


def build(name: str) -> Any:
    """A model of that architecture with random weights, in float32, the same ones at every call.

    Raises whatever its module does where the sizes do not suit it.
    """
    module = importlib.import_module(f"mlx_lm.models.{name}")
    args = module.ModelArgs
    sizes = _sizes_of(module, args, OTHERWISE.get(name, {}))
    made = args.from_dict(sizes) if hasattr(args, "from_dict") else args(**sizes)
    mx.random.seed(5)
    model = module.Model(made)
    model.set_dtype(mx.float32)
    mx.eval(model.parameters())
    return model
