// Package scripts is everything that runs inside Redis: one Lua file per operation, the keys they touch, and one typed Go
// function per script that builds its call and one that reads its reply. Nobody else sees argument positions or raw replies.
// It is part of the runtime's engine and makes no promise of compatibility.
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
	Name   string // as its file, without .lua
	Source string
	SHA    string // what EVALSHA calls it by
	sha    any    // the same, boxed once

	written string  // the source, without what it includes
	Many    *Script // does the same for many locks at once; nil: there is none
}

//go:embed lib/*.lua
var lib embed.FS

const include = "-- @include "

// all is every script of the package.
var all []*Script

// load puts the included files into the source. A missing file is a programming error and panics at start.
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

// Call is one script call, ready to be sent: the whole EVALSHA command, so that sending copies nothing.
type Call struct {
	Script *Script
	// Command is EVALSHA, the SHA, the number of keys, the keys, the arguments.
	Command []any
	// notAfter is the position in Command that takes the server time after which the script refuses to run; 0: it has none.
	notAfter int
	// floor is the position in Command that takes the server time which fencing tokens follow at least; 0: it has none.
	floor int
	// Limit is the latest that SetNotAfter sets, ms of server time; 0: there is none.
	Limit int64
}

// Room is where a command may be written: who asks for a call has it again when the call has been answered.
type Room [12]any

// firstKey is where in a command the keys begin.
const firstKey = 3

// newCall lays out the command. keys and args follow each other; notAfter is the position of that argument in args, or -1.
func newCall(s *Script, keys, args, notAfter int) Call {
	return newCallIn(nil, s, keys, args, notAfter)
}

// newCallIn is newCall in a room, if there is one.
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

// Bounded reports whether the script refuses to run late, so that SetNotAfter must be called before sending.
func (c Call) Bounded() bool { return c.notAfter > 0 }

// SetNotAfter sets the server time, in ms, after which the script refuses to run.
func (c Call) SetNotAfter(ms int64) {
	if c.Limit > 0 {
		ms = min(ms, c.Limit)
	}
	c.Command[c.notAfter] = ms
}

// TakesTokens reports whether the script takes fencing tokens, so that SetFloor must be called before sending.
func (c Call) TakesTokens() bool { return c.floor > 0 }

// SetFloor sets the server time, in us, that fencing tokens follow at least.
func (c Call) SetFloor(us int64) { c.Command[c.floor] = us }

// Sent is a copy of the command, for whoever keeps it or changes it: a hook of the user's client may rename keys in place, and a call that
// is sent again must not have them renamed twice.
func (c Call) Sent() []any { return slices.Clone(c.Command) }

// Keys are all that it touches, channels among them.
func (c Call) Keys() []any { return c.Command[firstKey : firstKey+c.Command[2].(int)] }

// Key is the first key of the call.
func (c Call) Key() string { return c.Command[firstKey].(string) }
