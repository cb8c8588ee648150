// Package scripts contains everything that runs inside Redis, as one Lua file per operation. It also contains the names of the keys, and typed Go
// functions that build the calls of the scripts and read the replies. No other package deals with argument positions. Runtime.Check is the only
// code outside the package that reads raw replies. The package is an internal part of the runtime, without a promise of compatibility.
package scripts

import (
	"crypto/sha1" //nolint:gosec // Redis names scripts by SHA-1.
	"embed"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// Script is one Lua script with its includes in place.
type Script struct {
	Name   string // name of the file, without .lua; the name of a variant (Many, Migrating) has a suffix
	Source string
	SHA    string // digest for EVALSHA
	sha    any    // SHA as an interface value, so that calls need not allocate it

	written   string  // the source as it is in the file, with the includes not yet in place
	Many      *Script // the variant that does the same for many locks with one call, or nil if there is none
	Migrating *Script // the variant for Options.Migrating, or nil if there is none
}

//go:embed lib/*.lua
var lib embed.FS

const include = "-- @include "

// all contains every script of the package.
var all []*Script

// load inserts the included files into the source. A missing file is a programming error and panics at start.
func load(name, source string) *Script {
	var b strings.Builder
	for line := range strings.Lines(source) {
		file, ok := strings.CutPrefix(strings.TrimSpace(line), include)
		if !ok {
			b.WriteString(line)
			continue
		}
		text, err := lib.ReadFile(file)
		if err != nil {
			panic(fmt.Sprintf("scripts: %s.lua includes %s: %v", name, file, err))
		}
		b.Write(text)
	}
	sum := sha1.Sum([]byte(b.String())) //nolint:gosec // as above.
	sha := hex.EncodeToString(sum[:])
	script := &Script{Name: name, Source: b.String(), SHA: sha, sha: sha, written: source}
	all = append(all, script)
	return script
}

// Call is one script call. It contains the whole EVALSHA command.
type Call struct {
	Script *Script
	// Command is EVALSHA, the SHA, the number of keys, the keys, the arguments.
	Command []any
	// notAfter is the position in Command of the argument that SetNotAfter sets, or 0 if the script has no such argument.
	notAfter int
	// minToken is the position in Command of the argument that SetMinToken sets, or 0 if the script has no such argument.
	minToken int
	// Limit is the latest server time, in ms, that SetNotAfter may set. It is 0 if there is no limit.
	Limit int64
}

// Room is reusable memory for a command. Its owner may use it again once the call has been answered.
type Room [12]any

// firstKey is the position of the first key in a command.
const firstKey = 3

// newCall prepares a command for the given numbers of keys and arguments. notAfter is the position of not_after among the arguments, from 0,
// or -1 if the script has no such argument.
func newCall(s *Script, keys, args, notAfter int) Call {
	return newCallIn(nil, s, keys, args, notAfter)
}

// newCallIn is newCall, but uses the memory of room unless room is nil.
func newCallIn(room *Room, s *Script, keys, args, notAfter int) Call {
	c := Call{Script: s}
	if room != nil {
		c.Command = room[:firstKey]
	} else {
		c.Command = make([]any, firstKey, firstKey+keys+args)
	}
	c.Command[0], c.Command[1], c.Command[2] = "evalsha", s.sha, keys
	if notAfter >= 0 {
		c.notAfter = firstKey + keys + notAfter
	}
	return c
}

// Bounded reports whether the script refuses to run late.
func (c Call) Bounded() bool { return c.notAfter > 0 }

// SetNotAfter sets the server time, in ms, after which the script refuses to run. It must be called before the call is sent. It does nothing if the
// script is not Bounded.
func (c Call) SetNotAfter(ms int64) {
	if c.notAfter == 0 {
		return
	}
	if c.Limit > 0 {
		ms = min(ms, c.Limit)
	}
	c.Command[c.notAfter] = ms
}

// TakesTokens reports whether the script issues fencing tokens. If so, SetMinToken must be called before the call is sent.
func (c Call) TakesTokens() bool { return c.minToken > 0 }

// SetMinToken sets a lower bound: the last fencing token that the script issues is at least us, a server time in microseconds.
func (c Call) SetMinToken(us int64) { c.Command[c.minToken] = us }

// Sent returns a copy of the command, which the caller may keep or change. For example, a hook of the user's client may rename the keys of the
// copy in place. The call keeps the original keys, so they are not renamed twice if the call is sent again.
func (c Call) Sent() []any { return slices.Clone(c.Command) }

// Keys returns all keys of the call, channels included.
func (c Call) Keys() []any { return c.Command[firstKey : firstKey+c.Command[2].(int)] }

// Key returns the first key of the call.
func (c Call) Key() string { return c.Command[firstKey].(string) }
