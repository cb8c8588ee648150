package sim

import (
	"crypto/sha1"
	"encoding/hex"
	"strings"
	"time"
)

// Mutant breaks something on purpose in a world. The zero value breaks nothing.
type Mutant struct {
	Name   string
	Breaks string // what it breaks, in words
	kinds  []kind // kinds of the worlds that can notice it, or nil if all can
	fault  string // the fault without which nothing notices it, or "" if no particular fault is needed

	scripts []edit                            // applied to the scripts before the server gets them
	runtime []edit                            // applied to the runtime's source, see Overlay
	clock   func(time.Duration) time.Duration // turns the time that has elapsed into the time that the runtimes measure
}

// edit replaces a piece of text. In the runtime's source it changes only the named function (package.Type.Method). In the scripts it
// changes every occurrence, and the function is "".
type edit struct{ function, old, replacement string }

// InSource reports whether the mutant changes the runtime's source, and so has to be built in.
func (m *Mutant) InSource() bool { return m.runtime != nil }

// Sound returns a mutant that breaks nothing, but runs in the same worlds as m. These worlds must report no violation.
func (m *Mutant) Sound() Mutant { return Mutant{kinds: m.kinds, fault: m.fault} }

func (m *Mutant) among() []kind {
	if m.kinds != nil {
		return m.kinds
	}
	return kinds
}

// Changes reports whether the mutant changes a script.
func (m *Mutant) Changes(source string) bool { return m.breakScript(source) != source }

// breakScript returns a script with the mutant's edits.
func (m *Mutant) breakScript(source string) string {
	for _, e := range m.scripts {
		source = strings.ReplaceAll(source, e.old, e.replacement)
	}
	return source
}

// mutate changes a command that loads or calls a script: it replaces the text that is loaded, or the SHA that is called.
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
