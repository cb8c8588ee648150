package sim

import (
	"crypto/sha1"
	"encoding/hex"
	"strings"
	"time"
)

// Mutant is a world in which something is broken on purpose. In the zero value nothing is.
type Mutant struct {
	Name   string
	Breaks string // what it breaks, in words
	kinds  []kind // of the worlds in which it can be noticed; nil: all
	fault  string // without which it cannot; "": no particular one

	scripts []edit                            // of what the server gets instead of the scripts
	runtime []edit                            // of the runtime's source, see Overlay
	clock   func(time.Duration) time.Duration // what runtimes take for the time that has passed
}

// edit replaces a piece of a function of the runtime, package.Type.Method; of scripts, wherever it is.
type edit struct{ function, old, replacement string }

// InSource reports whether a mutant is one of the runtime's source, which has to be built with it.
func (m *Mutant) InSource() bool { return m.runtime != nil }

// Sound is the same with nothing broken: the worlds in which the mutant is looked for, and in which nothing may be noticed without it.
func (m *Mutant) Sound() Mutant { return Mutant{kinds: m.kinds, fault: m.fault} }

func (m *Mutant) among() []kind {
	if m.kinds != nil {
		return m.kinds
	}
	return kinds
}

// Changes reports whether a script is another with a mutant.
func (m *Mutant) Changes(source string) bool { return m.breakScript(source) != source }

// breakScript is a script as a mutant has it.
func (m *Mutant) breakScript(source string) string {
	for _, e := range m.scripts {
		source = strings.ReplaceAll(source, e.old, e.replacement)
	}
	return source
}

// mutate changes a command that is about a script: what is loaded, and what is called by its sum.
func (w *world) mutate(command string, args []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case command == "SCRIPT" && len(args) == 2 && strings.EqualFold(args[0], "load"):
		mutant := w.mutant.breakScript(args[1])
		w.sources[sum(args[1])] = sum(mutant)
		args[1] = mutant
	case command == "EVALSHA":
		if mutant, ok := w.sources[args[0]]; ok {
			args[0] = mutant
		}
	}
}

func sum(source string) string {
	digest := sha1.Sum([]byte(source))
	return hex.EncodeToString(digest[:])
}
