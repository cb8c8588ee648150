package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast"
)

type aclJSON struct {
	User  string   `json:"user"`
	Rules []string `json:"rules"`
}

func aclCommand() *command {
	var only []holdfast.Kind
	prefix, user := "", "app"
	cluster, look, process := false, false, false
	return &command{
		name: "acl", args: "[flags]",
		does:  "print the rights that a user of Redis needs",
		about: `Prints the ACL rule for a user of Redis who locks names that begin with --prefix, with locks of --kinds. It does not connect to Redis. Replace PASSWORD. "holdfast check --kinds ..." checks the rights of a user who exists.`,
		examples: `  holdfast acl --kinds lock,fenced --prefix orders:
  holdfast acl --look --user viewer        # to use ls, show and top only`,
		flags: func(f *flags) {
			f.kindList(&only)
			f.text(&prefix, "prefix", "TEXT", "the beginning of all names; default: any names")
			f.text(&user, "user", "NAME", "the name of the user; default app")
			f.flag(&process, "process", "also announce who a process is, as holdfast exec and Options.Process do")
			f.flag(&cluster, "cluster", "for a cluster; run the command on every node")
			f.flag(&look, "look", "the rights to look, for ls, show and top, instead of those to lock")
		},
		run: func(a *app, in input) int {
			switch {
			case len(in.args) > 0:
				return a.usage("acl", errors.New("it takes no arguments"))
			case strings.ContainsAny(prefix+user, " \t\r\n\"'") || user == "":
				return a.usage("acl", errors.New("ACL rules cannot contain spaces and quotes"))
			case look && len(only) > 0:
				return a.usage("acl", errors.New("--look is for all kinds: leave out --kinds"))
			}
			r := lookRights(prefix)
			if !look {
				r = rightsOf(only, prefix)
			}
			if process && !look {
				r.add("~holdfast_process:{all}* +evalsha +script|load +get +set +del +time +zadd +zrem +zremrangebyscore +pttl +pexpire")
			}
			if cluster {
				r.add("+cluster|slots +asking")
				if !look {
					r.add("+pubsub|shardnumsub +ssubscribe +sunsubscribe +spublish")
				}
			}
			if a.json {
				return printJSON(a.stdout, a, aclJSON{user, r.rules})
			}
			fmt.Fprintf(a.stdout, "ACL SETUSER %s on >PASSWORD resetkeys resetchannels -@all %s\n", user, strings.Join(r.rules, " "))
			return exitOK
		},
	}
}

// rights are rules of an ACL, each once.
type rights struct {
	prefix, wrapped string // of keys, and of keys whose hash tag is a name
	rules           []string
}

func newRights(prefix string) *rights {
	escaped := strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(prefix)
	r := &rights{prefix: escaped, wrapped: escaped}
	if !strings.Contains(prefix, "{") { // a name that has a hash tag already is not wrapped
		r.wrapped = "{" + escaped
	}
	return r
}

// add adds rules, in which NAME stands for a name and {NAME for a key that is derived of it.
func (r *rights) add(rules string) {
	for rule := range strings.FieldsSeq(rules) {
		if r.prefix == "" && rule[0] == '~' {
			rule = "~*" // Redis accepts no pattern beside it
		}
		rule = strings.Replace(rule, "{NAME", r.wrapped, 1)
		if rule = strings.Replace(rule, "NAME", r.prefix, 1); !slices.Contains(r.rules, rule) {
			r.rules = append(r.rules, rule)
		}
	}
}

const (
	lockKeys     = "~NAME* ~redisson_lock__channel:{NAME* &redisson_lock__channel:{NAME* "
	lockCommands = "+del +hdel +hexists +hgetall +hlen +hset +pexpire +pttl +publish "
	readWrite    = "~NAME* ~{NAME* ~redisson_rwlock:{NAME* &redisson_rwlock:{NAME* " + lockCommands + "+exists +hget +hkeys +hrandfield +set"
	counted      = "~NAME* ~{NAME* ~redisson_sc:{NAME* &redisson_sc:{NAME* ~holdfast_attempt:{NAME* "
)

// rightsByKind is the table of SECURITY.md, with which a test compares it.
var rightsByKind = map[holdfast.Kind]string{
	holdfast.KindLock:   lockKeys + lockCommands,
	holdfast.KindSpin:   lockKeys + lockCommands,
	holdfast.KindFenced: lockKeys + "~redisson_lock_token:{NAME* " + lockCommands + "+get +set",
	holdfast.KindFair: lockKeys + "~redisson_lock_queue:{NAME* ~redisson_lock_timeout:{NAME* ~holdfast_waiting:{NAME* " +
		"+del +exists +hdel +hexists +hgetall +hlen +hset +lindex +lpop +lpos +lrange +lrem +pexpire +pttl +publish +rpush +zadd +zrange +zrem +zscore",
	holdfast.KindRead:  readWrite,
	holdfast.KindWrite: readWrite,
	holdfast.KindSemaphore: "~NAME* ~redisson_sc:{NAME* &redisson_sc:{NAME* ~holdfast_attempt:{NAME* ~holdfast_want:{NAME* " +
		"+decrby +del +get +incrby +publish +set",
	holdfast.KindPermitSemaphore: counted + "+decrby +del +get +incrby +pexpire +pttl +publish +set +zadd +zcard +zrange +zrangebyscore +zrem +zscore",
	holdfast.KindLatch: "~NAME* ~redisson_countdownlatch__channel__{NAME* &redisson_countdownlatch__channel__{NAME* " +
		"~holdfast_attempt:{NAME* +decrby +del +get +publish +set",
}

// rightsOf are those of some kinds; of all if there are none.
func rightsOf(only []holdfast.Kind, prefix string) *rights {
	r := newRights(prefix)
	r.add("+hello +ping +time +evalsha +script|load")
	for _, k := range kinds {
		if len(only) > 0 && !slices.Contains(only, k.kind) {
			continue
		}
		if k.kind != holdfast.KindSpin {
			r.add("+subscribe +unsubscribe")
		}
		r.add(rightsByKind[k.kind])
	}
	return r
}

// lookRights are those that SECURITY.md recommends to look.
func lookRights(prefix string) *rights {
	r := newRights(prefix)
	r.add("~NAME* ~{NAME* ~redisson_lock_queue:{NAME* ~redisson_lock_token:{NAME* ~holdfast_process:{all}* " +
		"+hello +ping +time +type +scan +pttl +getrange +hrandfield +hscan +lrange +zrange +pubsub")
	return r
}
