# zsh reads this first in `gpuconf shell`, whose ZDOTDIR is this folder.  It gives way to the user's
# files at once; before the first prompt, behind them all, it sets again what carries the plan.
if [[ -n ${_GPUCONF_ZDOTDIR-} ]]; then
    export ZDOTDIR=$_GPUCONF_ZDOTDIR
else
    unset ZDOTDIR
fi
_gpuconf_plan=${_GPUCONF_PLAN-}
unset _GPUCONF_ZDOTDIR _GPUCONF_PLAN
if [[ -r ${ZDOTDIR:-$HOME}/.zshenv ]]; then source ${ZDOTDIR:-$HOME}/.zshenv; fi

_gpuconf_put_first() {
    [[ ${PYTHONPATH-}: != $_gpuconf_site:* ]] || return 1
    export PYTHONPATH=$_gpuconf_site${PYTHONPATH:+:$PYTHONPATH}
}

_gpuconf_before_prompt() {
    emulate -L zsh
    if [[ -n ${_gpuconf_plan-} ]]; then
        eval $_gpuconf_plan
        unset _gpuconf_plan
        _gpuconf_put_first
        # Last, behind those that change variables (direnv) or write the prompt (starship).
        precmd_functions=(${precmd_functions:#_gpuconf_before_prompt} _gpuconf_before_prompt)
    fi
    if _gpuconf_put_first; then print -r -u2 -- $_gpuconf_lost; fi
    if [[ -z ${GPUCONF_DISABLE_PROMPT-} && ${PROMPT-} != *$_gpuconf_mark* ]]; then
        PROMPT=$_gpuconf_mark${PROMPT-}
    fi
}

if [[ -n $_gpuconf_plan ]]; then
    typeset -ga precmd_functions
    precmd_functions+=(_gpuconf_before_prompt)
fi
