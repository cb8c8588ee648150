package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"
)

func completionCommand() *command {
	return &command{
		name: "completion", args: "bash|zsh|fish",
		does:  "print a script that completes commands and flags in a shell",
		about: "Prints a script that makes a shell complete the commands and flags of holdfast, and the names of kinds.",
		examples: `  source <(holdfast completion bash)                                    # in ~/.bashrc
  source <(holdfast completion zsh)                                     # in ~/.zshrc, after compinit
  holdfast completion fish >~/.config/fish/completions/holdfast.fish`,
		run: func(a *app, in input) int {
			shells := map[string]func(io.Writer){"bash": completeBash, "zsh": completeZsh, "fish": completeFish}
			if len(in.args) != 1 || shells[in.args[0]] == nil {
				return a.usage("completion", errors.New("write bash, zsh or fish"))
			}
			var script strings.Builder
			shells[in.args[0]](&script)
			return a.write(script.String())
		},
	}
}

func flagsOf(c *command) []flagDoc {
	f := newFlags(c.name)
	if c.flags != nil {
		c.flags(f)
	}
	(&app{}).globals(f)
	return f.docs
}

func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

func commandNames() (names []string) {
	for _, c := range commands() {
		names = append(names, c.name)
	}
	return names
}

func completeBash(w io.Writer) {
	names := strings.Join(commandNames(), " ")
	fmt.Fprintf(w, `# bash completion of holdfast
_holdfast() {
  local word=${COMP_WORDS[COMP_CWORD]} last=${COMP_WORDS[COMP_CWORD-1]} command= flags= i
  for ((i = 1; i < COMP_CWORD; i++)); do
    case ${COMP_WORDS[i]} in
      --) COMPREPLY=($(compgen -o default -c -- "$word")); return ;;
      -r|--redis) # bash makes words of the colons in a URL
        [[ ${COMP_WORDS[i+1]} != = ]] || ((i++))
        ((i++))
        while [[ ${COMP_WORDS[i+1]} == [@:=]* ]]; do ((i += 2)); done ;;
      -*) ;;
      *) [ -n "$command" ] || command=${COMP_WORDS[i]} ;;
    esac
  done
  [[ $last != = ]] || last=${COMP_WORDS[COMP_CWORD-2]}
  case $last in
    --kind|--kinds) COMPREPLY=($(compgen -W '%s' -- "$word")); return ;;
  esac
  case $command in
    '') COMPREPLY=($(compgen -W '%s --redis --json --help' -- "$word")); return ;;
    help) COMPREPLY=($(compgen -W '%s' -- "$word")); return ;;
    completion) COMPREPLY=($(compgen -W 'bash zsh fish' -- "$word")); return ;;
`, strings.Join(kindWords(), " "), names, names)
	for _, c := range commands() {
		var forms []string
		for _, d := range flagsOf(c) {
			for _, name := range d.names {
				forms = append(forms, dashed(name))
			}
		}
		fmt.Fprintf(w, "    %s) flags='%s --help' ;;\n", c.name, strings.Join(forms, " "))
	}
	fmt.Fprint(w, `  esac
  [[ $word != -* ]] || COMPREPLY=($(compgen -W "$flags" -- "$word"))
}
complete -o default -F _holdfast holdfast
`)
}

func completeZsh(w io.Writer) {
	quote := strings.NewReplacer("'", `'\''`, "[", `\[`, "]", `\]`, ":", `\:`).Replace
	fmt.Fprint(w, "#compdef holdfast\n# zsh completion of holdfast\n_holdfast() {\n  local -a commands\n  local -i at=2\n  commands=(\n")
	for _, c := range commands() {
		fmt.Fprintf(w, "    '%s:%s'\n", c.name, quote(c.does))
	}
	fmt.Fprint(w, `  )
  while (( at < CURRENT )) && [[ $words[at] == -* ]]; do
    [[ $words[at] != (-r|--redis) ]] || (( at++ ))
    (( at++ ))
  done
  shift $(( at - 2 )) words
  (( CURRENT -= at - 2 ))
  if (( CURRENT == 2 )); then
    _describe command commands
    return
  fi
  local dashes=${words[(i)--]}
  if (( dashes < CURRENT )); then
    shift $dashes words
    (( CURRENT -= dashes ))
    _normal
    return
  fi
  case $words[2] in
    help) _describe command commands ;;
    completion) _values shell bash zsh fish ;;
`)
	for _, c := range commands() {
		fmt.Fprintf(w, "    %s) _arguments", c.name)
		for _, d := range flagsOf(c) {
			for _, name := range d.names {
				argument := ""
				if d.arg != "" {
					argument = ":" + d.arg + ":"
				}
				if len(d.words) > 0 {
					argument += "(" + strings.Join(d.words, " ") + ")"
				}
				fmt.Fprintf(w, " '%s[%s]%s'", dashed(name), quote(d.about), argument)
			}
		}
		fmt.Fprint(w, " '*: :_default' ;;\n")
	}
	fmt.Fprint(w, "  esac\n}\ncompdef _holdfast holdfast\n")
}

func completeFish(w io.Writer) {
	quote := strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace
	names := strings.Join(commandNames(), " ")
	fmt.Fprint(w, "# fish completion of holdfast\ncomplete -c holdfast -f\n")
	for _, c := range commands() {
		fmt.Fprintf(w, "complete -c holdfast -n 'not __fish_seen_subcommand_from %s' -a %s -d '%s'\n", names, c.name, quote(c.does))
		for _, d := range flagsOf(c) {
			fmt.Fprintf(w, "complete -c holdfast -n '__fish_seen_subcommand_from %s'", c.name)
			for _, name := range d.names {
				if len(name) == 1 {
					fmt.Fprint(w, " -s "+name)
				} else {
					fmt.Fprint(w, " -l "+name)
				}
			}
			if d.arg != "" {
				fmt.Fprint(w, " -x")
			}
			if len(d.words) > 0 {
				fmt.Fprintf(w, " -a '%s'", strings.Join(d.words, " "))
			}
			fmt.Fprintf(w, " -d '%s'\n", quote(d.about))
		}
	}
	fmt.Fprint(w, "complete -c holdfast -n '__fish_seen_subcommand_from completion' -a 'bash zsh fish'\n")
	fmt.Fprintf(w, "complete -c holdfast -n '__fish_seen_subcommand_from help' -a '%s'\n", names)
	fmt.Fprint(w, `complete -c holdfast -n 'contains -- -- (commandline -opc)' -a '(complete -C (string replace -r "^.*? -- +" "" -- (commandline -cp)))'`+"\n")
}
