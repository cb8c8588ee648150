package scripts

import (
	_ "embed"
	"regexp"
	"slices"
)

var (
	//go:embed check_commands.lua
	checkCommandsLua string
	//go:embed check_keys.lua
	checkKeysLua string
	//go:embed check_publish.lua
	checkPublishLua string

	checkCommands = load("check_commands", checkCommandsLua)
	checkKeys     = load("check_keys", checkKeysLua)
	checkPublish  = load("check_publish", checkPublishLua)
)

// Needs contains the commands, keys and channels that the scripts of a kind use. Runtime.Check tries them.
type Needs struct {
	Commands []string // in lower case; publish stands for PUBLISH or SPUBLISH
	Keys     []string // including the channels, which scripts also get as keys
	Channels []string
}

var called = regexp.MustCompile(`redis\.p?call\('?(\w+)`)

// Needs returns the commands, keys and channels that the kind uses for the lock named `raw`. It collects them from the calls of k.Check, which run
// every script of the kind.
func (k *Kind) Needs(s *Site, raw string, newID func() string) (n Needs) {
	for _, call := range k.Check(s, raw, newID) {
		for _, command := range called.FindAllStringSubmatch(call.Script.Source, -1) {
			n.Commands = append(n.Commands, ruleOf(command[1]))
		}
		for _, k := range call.Keys() {
			key := k.(string)
			n.Keys = append(n.Keys, key)
			if IsChannel(key) {
				n.Channels = append(n.Channels, key)
			}
		}
	}
	for _, list := range []*[]string{&n.Commands, &n.Keys, &n.Channels} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	return n
}

// ruleOf returns the name of a command in ACL rules.
func ruleOf(command string) string {
	if command == "pubsub" {
		return "pubsub|numsub"
	}
	return command
}

// CheckKey returns a call that does nothing, but needs the right to use this key in a script.
func CheckKey(key string) Call {
	c := newCall(checkCommands, 1, 0, -1)
	c.Command = append(c.Command, key)
	return c
}

// CheckKeys returns a call whose reply contains the names of these keys as the server received them.
func CheckKeys(keys []string) Call {
	c := newCall(checkKeys, len(keys), 0, -1)
	for _, key := range keys {
		c.Command = append(c.Command, key)
	}
	return c
}

// CheckPublish returns a call that publishes a meaningless message; its reply is the number of receivers.
func CheckPublish(s *Site, channel string) Call {
	c := newCall(checkPublish, 1, 1, -1)
	c.Command = append(c.Command, channel, s.Publish)
	return c
}

// CheckCommands returns a call whose script tries these commands. The keys in the commands must not exist, and are not passed to the script as
// KEYS. The reply contains the error of each command.
func CheckCommands(commands [][]any) Call {
	c := newCall(checkCommands, 0, 0, -1)
	for _, words := range commands {
		c.Command = append(append(c.Command, len(words)), words...)
	}
	return c
}

// Harmless returns a command with arguments that change nothing if the key does not exist: the command reads, deletes, sets a TTL, or is
// refused because of its arguments. A publishing command gets a meaningless message. For a command that is not listed here it returns nil.
func Harmless(command, key, channel string) []any {
	switch command {
	case "time":
		return []any{command}
	case "pubsub|numsub":
		return []any{"pubsub", "numsub", key}
	case "publish", "spublish":
		return []any{command, channel, ""}
	case "del", "exists", "get", "hgetall", "hkeys", "hlen", "hrandfield", "lpop", "pttl", "type", "zcard":
		return []any{command, key}
	case "hdel", "hexists", "hget", "zrank", "zrem", "zscore", "lpos":
		return []any{command, key, "x"}
	case "lindex":
		return []any{command, key, 0}
	case "pexpire":
		return []any{command, key, 1}
	case "lrange", "zrange", "zrangebyscore":
		return []any{command, key, 0, 0}
	case "lrem":
		return []any{command, key, 0, "x"}
	case "hset":
		return []any{command, key, "field", "value", "a field without a value"}
	case "incrby", "decrby":
		return []any{command, key, "no number"}
	case "set":
		return []any{command, key, "x", "px", "no number"}
	case "zadd":
		return []any{command, key, "no number", "x"}
	}
	return nil
}
