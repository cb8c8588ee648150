package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/text"
)

type aclJSON struct {
	User  string   `json:"user"`
	Rules []string `json:"rules"`
}

// aclFlags are the values of acl's flags.
type aclFlags struct {
	only                                                                   []holdfast.Kind
	prefix, user                                                           string
	process, election, linger, migrating, replicas, look, freeing, cluster bool
}

func aclCommand() *command {
	o := aclFlags{user: "app"}
	return &command{
		name: "acl", args: "[flags]",
		does:  "print the rights that a Redis user needs",
		about: `Prints the ACL rule for a Redis user that acquires locks of --kinds whose names begin with --prefix. It does not connect to Redis. Replace PASSWORD in the rule. "holdfast check --prefix ... --kinds ..." checks the rights of an existing user.`,
		examples: `  holdfast acl --kinds lock,fenced --prefix orders: --process   # for exec
  holdfast acl --election --prefix orders: --process            # for lead
  holdfast acl --look --user viewer                             # for ls, show, top and page
  holdfast acl --free --user operator                           # for these commands and free`,
		flags: func(f *flags) {
			f.kindList(&o.only)
			f.text(&o.prefix, "prefix", "TEXT", "the beginning of all names; default: any names")
			f.text(&o.user, "user", "NAME", "the name of the user; default app")
			f.flag(&o.process, "process", "also the rights to announce processes, as holdfast exec, holdfast lead and Options.Process do")
			f.flag(&o.election, "election", "the rights for elections, as holdfast lead needs them; without --kinds, those for other locks are left out")
			f.flag(&o.linger, "linger", "also the rights for Options.Linger")
			f.flag(&o.migrating, "migrating", "also the right for Options.Migrating")
			f.flag(&o.replicas, "ack-replicas", "also the right for Options.AckReplicas")
			f.flag(&o.cluster, "cluster", "for a cluster; run the ACL command on every node")
			f.flag(&o.look, "look", "only the rights to look at locks, for ls, show, top and page")
			f.flag(&o.freeing, "free", "the rights to look at locks, and to free locks of --kinds by force")
		},
		run: func(a *app, in input) int {
			if err := o.check(in); err != nil {
				return a.usage("acl", err)
			}
			rules := o.rules()
			if a.json {
				return printJSON(a.stdout, a, aclJSON{o.user, rules})
			}
			return a.write(fmt.Sprintf("ACL SETUSER %s on >PASSWORD resetkeys resetchannels -@all %s\n", o.user, strings.Join(rules, " ")))
		},
	}
}

func (o *aclFlags) check(in input) error {
	switch {
	case len(in.args) > 0:
		return errors.New("it takes no arguments")
	case o.user == "":
		return errors.New("--user is empty")
	case !isWord(o.prefix):
		return fmt.Errorf("--prefix is %s, but a rule cannot contain spaces, quotes and characters that are not printable", text.Show(o.prefix))
	case !isWord(o.user):
		return fmt.Errorf("--user is %s, but a rule cannot contain spaces, quotes and characters that are not printable", text.Show(o.user))
	case o.look && (len(o.only) > 0 || o.process || o.election || o.linger || o.migrating || o.replicas):
		return errors.New("--look is for all kinds, and only for reading: leave out all flags but --prefix, --user and --cluster")
	case o.look && o.freeing:
		return errors.New("--free includes the rights of --look: leave out --look")
	}
	return nil
}

// isWord reports whether s can be a part of a rule that people copy.
func isWord(s string) bool { return text.Message(s) == s && !strings.ContainsAny(s, " \n\"'") }

func (o *aclFlags) rules() []string {
	r := newRights(o.prefix)
	if !o.look {
		kinds := o.only
		if o.election {
			kinds = append(slices.Clip(kinds), holdfast.KindFenced)
		}
		r.lock(kinds)
	}
	if o.look || o.freeing {
		r.look()
	}
	if o.election {
		r.add("~holdfast_leader:{NAME* &holdfast_leader:{NAME* +hget")
	}
	if o.linger {
		r.add("&holdfast_demand:* +publish +subscribe +unsubscribe")
	}
	if o.migrating {
		r.add("+type")
	}
	if o.replicas {
		r.add("+wait")
	}
	if o.process {
		r.add("~holdfast_process:{all}* +evalsha +script|load +get +set +del +time +zadd +zrem +zremrangebyscore +pttl +pexpire")
	}
	if o.cluster {
		r.add("+cluster|slots +asking")
		if !o.look {
			r.add("+pubsub|shardnumsub +ssubscribe +sunsubscribe +spublish")
		}
	}
	return r.rules
}

// rights are the rules of an ACL, without duplicates.
type rights struct {
	prefix  string // the beginning of all names, escaped for patterns
	wrapped string // how names begin inside derived keys: "{" and the prefix, or only the prefix if the prefix contains "{"
	rules   []string
}

func newRights(prefix string) *rights {
	escaped := strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(prefix)
	r := &rights{prefix: escaped, wrapped: escaped}
	if !strings.Contains(prefix, "{") { // a name with a hash tag is not wrapped in braces
		r.wrapped = "{" + escaped
	}
	return r
}

// add adds rules. In a rule, these words stand for the name of a lock:
//
//	NAME     the name itself
//	{NAME    the name in a derived key: in braces, unless the name has a hash tag
//	{{NAME   the name in a derived key of a kind that always puts it in braces
func (r *rights) add(rules string) {
	for rule := range strings.FieldsSeq(rules) {
		if r.prefix == "" && rule[0] == '~' {
			rule = "~*" // it matches every key, and Redis rejects further key patterns
		}
		if rule = strings.NewReplacer("{{NAME", "{"+r.prefix, "{NAME", r.wrapped, "NAME", r.prefix).Replace(rule); !slices.Contains(r.rules, rule) {
			r.rules = append(r.rules, rule)
		}
	}
}

const (
	lockKeys     = "~NAME* ~redisson_lock__channel:{NAME* &redisson_lock__channel:{NAME* "
	lockCommands = "+del +hdel +hexists +hgetall +hlen +hset +pexpire +pttl +publish +pubsub|numsub +zadd +zrange +zrank +zrem "
	readWrite    = "~NAME* ~{NAME* ~redisson_rwlock:{NAME* &redisson_rwlock:{NAME* " +
		"+del +exists +hdel +hexists +hget +hgetall +hkeys +hlen +hrandfield +hset +pexpire +pttl +publish +set"
	counted = "~NAME* ~{NAME* ~redisson_sc:{NAME* &redisson_sc:{NAME* ~holdfast_attempt:{NAME* "
)

// rightsByKind contains the rights that each kind needs. A test compares it with the table in SECURITY.md.
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
	holdfast.KindLatch: "~NAME* ~redisson_countdownlatch__channel__{{NAME* &redisson_countdownlatch__channel__{{NAME* " +
		"~holdfast_attempt:{NAME* +decrby +del +get +publish +set",
}

// lock adds the rights for the given kinds, or for all kinds if the list `only` is empty.
func (r *rights) lock(only []holdfast.Kind) {
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
}

// look adds the rights to look at locks. SECURITY.md recommends the same rights.
func (r *rights) look() {
	r.add("~NAME* ~{NAME* ~redisson_lock_queue:{NAME* ~redisson_lock_token:{NAME* ~holdfast_process:{all}* " +
		"+hello +ping +time +type +scan +pttl +getrange +hrandfield +hscan +lrange +zrange +pubsub")
}
