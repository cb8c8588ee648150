package sim

import (
	"crypto/sha1"
	"encoding/hex"
	"strings"
	"time"
)

// Mutant is a world in which something is broken on purpose. In the zero value nothing is.
type Mutant struct {
	Name    string
	Rare    bool                              // it takes hundreds of worlds to notice
	scripts *strings.Replacer                 // what the server gets instead of the scripts
	clock   func(time.Duration) time.Duration // what runtimes take for the time that has passed
}

// Mutants are those that the oracle must notice.
var Mutants = []Mutant{
	scriptMutant("release without owner check",
		"if redis.call('hexists', lock, grant) == 0 then return nil end\nredis.call('del', lock)", "redis.call('del', lock)"),
	scriptMutant("no TTL",
		"if type(redis.pcall('pexpire', lock, lease)) == 'table' then", "if false then"),
	scriptMutant("half the lease",
		"redis.pcall('pexpire', lock, lease)", "redis.pcall('pexpire', lock, math.floor(lease / 2))"),
	rare("renew without owner check",
		"local held = redis.pcall('hexists', lock, ARGV[i + 2])", "local held = 1"),
	rare("late execution",
		"if now > tonumber(not_after) then", "if false then"),
	scriptMutant("token repeated",
		"local last = math.max(least, t[1] * 1000000 + t[2])", "local last = 1000000; least = 1"),
	scriptMutant("a lock that ends soon is given away",
		"if redis.call('exists', lock) == 1 and redis.call('hexists', lock, grant) == 0 then",
		"if redis.call('exists', lock) == 1 and redis.call('hexists', lock, grant) == 0 and redis.call('pttl', lock) > 150 then"),
	scriptMutant("reader beside a writer",
		"if mode == 'write' and not held and redis.call('hexists', lock, writer) == 0 then", "if false then"),
	scriptMutant("writer beside readers",
		"if mode and redis.call('hexists', lock, grant) == 0 then", "if mode == 'write' and redis.call('hexists', lock, grant) == 0 then"),
	scriptMutant("fair lock without a look at the holder",
		"if ttl == -2 and (not head or head == grant) then", "if not head or head == grant then"),
	scriptMutant("one permit too many",
		"if tonumber(redis.call('get', permits) or '0') > 0 then", "if tonumber(redis.call('get', permits) or '0') >= 0 then"),
	rare("a repeated permit counts twice",
		"local score = redis.call('zscore', timeouts, permit)\nif score then", "local score = redis.call('zscore', timeouts, permit)\nif false then"),
	rare("a repeated semaphore acquire counts twice",
		"if before then", "if false then"),
	rare("a repeated count-down counts twice",
		"if not result then", "if true then"),
	{Name: "a runtime whose clock is slow", clock: func(d time.Duration) time.Duration { return d * 9 / 10 }},
}

func scriptMutant(name, old, replacement string) Mutant {
	return Mutant{Name: name, scripts: strings.NewReplacer(old, replacement)}
}

// mutate changes a command that is about a script: what is loaded, and what is called by its sum.
func (w *world) mutate(command string, args []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case command == "SCRIPT" && len(args) == 2 && strings.EqualFold(args[0], "load"):
		mutant := w.mutant.scripts.Replace(args[1])
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

func rare(name, old, replacement string) Mutant {
	m := scriptMutant(name, old, replacement)
	m.Rare = true
	return m
}
