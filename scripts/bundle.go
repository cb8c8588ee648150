package scripts

import (
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

// forMany makes, besides a script, one that does the same for many locks at once: for a server a call of a script costs more than what
// such a script does. keys is how many keys a call of it has. What the script includes is in front, once for all locks.
func (s *Script) forMany(keys int) *Script {
	var includes, body strings.Builder
	for line := range strings.Lines(s.written) {
		if strings.HasPrefix(line, include) {
			includes.WriteString(line)
		} else {
			body.WriteString(line)
		}
	}
	s.Many = load(s.Name+"_many", fmt.Sprintf(`-- %s_many: what %s does, for many locks: the KEYS and the ARGV of one call behind those of the other.
--
-- Returns a list of their replies, in the same order; errors are {'error', text}.
-- @include lib/for_each.lua
%s
return for_each(#KEYS / %d, function(KEYS, ARGV)
%send)
`, s.Name, s.Name, includes.String(), keys, body.String()))
	return s
}

// Bundle is the calls of a script, all of the same one that has a Many, as one call of that. It leaves them as they are.
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

// Unbundle is the replies to the n calls of a bundle. An item is an error if that call got one.
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

// refusal is what the server says instead of executing a command.
type refusal string

func (r refusal) Error() string { return string(r) }

// RedisError marks it as one of a server's errors.
func (refusal) RedisError() {}
