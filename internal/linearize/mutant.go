package linearize

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Mutant is a script that is broken on purpose.
type Mutant struct {
	Name     string
	Kind     string // the kind of lock whose histories reveal the mutant
	Old, New string // text of the scripts
}

// Mutants are the broken scripts. A few seconds of work must reveal each of them.
var Mutants = []Mutant{
	{
		"release without owner check", "lock",
		"if redis.call('hdel', lock, grant) == 0 then return nil end", "redis.call('del', lock)",
	},
	{"acquire forgets the TTL", "lock", "if type(redis.pcall('pexpire', lock, lease)) == 'table' then", "if false then"},
	{"lease half as long", "lock", "redis.pcall('pexpire', lock, lease)", "redis.pcall('pexpire', lock, math.floor(lease / 2))"},
	{
		"a held lock is overwritten now and then", "lock",
		"if ttl ~= -2 then\n  local holder",
		"if ttl ~= -2 and redis.call('time')[2] % 25 == 0 then\n  redis.call('del', lock)\n  ttl = -2\nend\nif ttl ~= -2 then\n  local holder",
	},
	{"renew without owner check", "lock", "local held = redis.pcall('hexists', lock, ARGV[i + 2])", "local held = 1"},
	{
		"token smaller now and then", "fenced lock",
		"local first = math.max(least, last - n + 1)", "local first = math.max(least, last - n + 1) - (t[2] % 10 == 0 and 1000000 or 0)",
	},
	{"fair lock ignores the queue", "fair lock", "if ttl == -2 and (not head or head == grant) then", "if ttl == -2 then"},
	{"fair lock ignores the holder", "fair lock", "if ttl == -2 and (not head or head == grant) then", "if not head or head == grant then"},
	{
		"reader beside a writer", "read/write lock",
		"if mode == 'write' and not held and redis.call('hexists', lock, writer) == 0 then", "if false then",
	},
	{
		"writer beside readers", "read/write lock",
		"if mode and redis.call('hexists', lock, grant) == 0 then", "if mode == 'write' and redis.call('hexists', lock, grant) == 0 then",
	},
	{
		"one permit too many", "permit semaphore",
		"if (free or 0) > 0 then", "if (free or 0) >= 0 then",
	},
}

// changer is a client hook that replaces a script by a broken one on its way to the server.
type changer struct {
	mutant *Mutant

	mu      sync.Mutex
	changed map[string]string // sum of the right script -> sum of the broken one
}

func newChanger(m *Mutant) *changer { return &changer{mutant: m, changed: map[string]string{}} }

// broke reports whether a script that was used contains the mutant's old text. If none does, the mutant must be adapted to the scripts.
func (c *changer) broke() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for sound, broken := range c.changed {
		if sound != broken {
			return true
		}
	}
	return false
}

func (c *changer) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *changer) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		c.change(command.Args())
		return next(ctx, command)
	}
}

func (c *changer) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		for _, command := range commands {
			c.change(command.Args())
		}
		return next(ctx, commands)
	}
}

// change edits the arguments of a command in place: the text of a script that is loaded, or the sum of a script that is called.
func (c *changer) change(args []any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch args[0] {
	case "script":
		if source, loads := args[len(args)-1].(string); loads && args[1] == "load" {
			broken := strings.ReplaceAll(source, c.mutant.Old, c.mutant.New)
			c.changed[sum(source)] = sum(broken)
			args[2] = broken
		}
	case "evalsha":
		if broken, ok := c.changed[args[1].(string)]; ok {
			args[1] = broken
		}
	}
}

func sum(source string) string {
	digest := sha1.Sum([]byte(source))
	return hex.EncodeToString(digest[:])
}
