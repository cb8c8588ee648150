package scripts

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/redis/go-redis/v9"
)

// forMany adds a variant of the script that does the same for many locks in one call. One call for many locks is cheaper for the server,
// because the overhead of a call is larger than the work that the script does for one lock. The parameter `keys` is the number of keys of one lock.
//
// The variant begins with the script's includes, once for all locks. The rest of the script becomes the body of a function that is called for each
// lock. The function reads KEYS and ARGV at an offset; copying them for each lock would cost the server a fifth more.
func (s *Script) forMany(keys int) *Script {
	var includes, body strings.Builder
	for line := range strings.Lines(s.written) {
		switch {
		case strings.HasPrefix(line, include):
			includes.WriteString(line)
		case !strings.HasPrefix(line, "--"):
			body.WriteString(positions.ReplaceAllString(line, "${1}[${1}_before + ${2}]"))
		}
	}
	s.Many = load(s.Name+"_many", fmt.Sprintf(`-- %s_many: the same as %s for many locks; the KEYS of all calls follow each other, and so do the ARGV.
--
-- Returns a list of their replies, in the same order; errors are {'error', text}.
-- @include lib/for_each.lua
%s
return for_each(%d, function(KEYS_before, ARGV_before)
%send)
`, s.Name, s.Name, includes.String(), keys, body.String()))
	if s.Migrating != nil {
		s.Migrating.forMany(keys)
	}
	return s
}

// positions matches the places where a script reads a key or an argument.
var positions = regexp.MustCompile(`\b(KEYS|ARGV)\[(\d+)\]`)

// Bundle returns one call of Script.Many that replaces several calls of the same script. It does not change the calls that are replaced.
func Bundle(calls []*Call) Call {
	first := calls[0]
	keys := len(first.Keys())
	c := newCall(first.Script.Many, len(calls)*keys, len(calls)*(len(first.Command)-firstKey-keys), -1)
	for _, call := range calls {
		c.Command = append(c.Command, call.Command[firstKey:firstKey+keys]...)
	}
	for _, call := range calls {
		c.Command = append(c.Command, call.Command[firstKey+keys:]...)
	}
	return c
}

// Unbundle returns the replies to the n calls of a bundle. An item is an error if its call failed, and redis.Nil if its reply was nil.
func Unbundle(reply any, n int) ([]any, error) {
	list, ok := reply.([]any)
	if !ok || len(list) != n {
		return nil, unexpected("bundle", reply)
	}
	for i, item := range list {
		if item == nil {
			list[i] = error(redis.Nil)
		}
		if pair, _ := item.([]any); len(pair) == 2 && pair[0] == "error" {
			list[i] = refusal(fmt.Sprint(pair[1]))
		}
	}
	return list, nil
}

// refusal is an error reply of the server.
type refusal string

func (r refusal) Error() string { return string(r) }

// RedisError marks a refusal as an error of the server. It implements redis.Error of go-redis.
func (refusal) RedisError() {}
