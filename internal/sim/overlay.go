package sim

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Overlay writes what a build with `go build -overlay` needs to have all runtime mutants in it, each behind a switch, and returns the
// file to name there. So nothing of them is in the runtime that is shipped, and all of the runtime is in theirs.
func Overlay(module, scratch string) (file string, err error) {
	changed := map[string]string{} // by path in the module
	for _, m := range RuntimeMutants {
		for _, e := range m.runtime {
			source, ok := changed[e.file]
			if !ok {
				read, err := os.ReadFile(filepath.Join(module, e.file))
				if err != nil {
					return "", err
				}
				source = string(read)
			}
			if n := strings.Count(source, e.old); n != 1 {
				return "", fmt.Errorf("mutant %q: %q is %d times in %s, must be there once", m.Name, e.old, n, e.file)
			}
			replacement := e.replacement
			if strings.HasPrefix(e.file, "actors/") {
				replacement = strings.ReplaceAll(replacement, "actors.Broken(", "Broken(")
			}
			changed[e.file] = strings.Replace(source, e.old, replacement, 1)
		}
	}
	changed["actors/broken.go"] = brokenSwitch
	changed["internal/sim/broken.go"] = simSwitch
	replace := map[string]string{}
	for path, source := range changed {
		to := filepath.Join(scratch, strings.ReplaceAll(path, "/", "_"))
		if err := os.WriteFile(to, []byte(source), 0o600); err != nil {
			return "", err
		}
		replace[filepath.Join(module, path)] = to
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	file = filepath.Join(scratch, "overlay.json")
	return file, os.WriteFile(file, text, 0o600)
}

const brokenSwitch = `package actors

import "sync/atomic"

var Mutation atomic.Pointer[string]

// Broken reports whether a mutant is on.
func Broken(name string) bool {
	on := Mutation.Load()
	return on != nil && *on == name
}
`

const simSwitch = `package sim

import "github.com/holdfast-go/holdfast/actors"

func breakRuntime(name string) bool {
	actors.Mutation.Store(&name)
	return true
}
`
