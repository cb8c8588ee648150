package cli

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/inspect"
)

func topCommand() *command {
	o := topOptions{every: time.Second}
	return &command{
		name: "top", args: "[flags] [PATTERN]",
		does: "watch the locks that are in use, live",
		about: `Shows the locks that are in use, as "holdfast ls" does, and looks again every --interval. Keys: up and down select a lock, Enter shows it, f frees it by force after asking, / filters, s sorts by waiters, TTL or name, p pauses, ? explains the keys, q quits.

All keys are scanned at each look. The pause after a look is at least four times as long as the look, so that Redis is busy with it for at most a fifth of the time. --contended reads the channels that have subscribers instead, which is quick no matter how many keys there are.

When Redis does not answer, or refuses, the result of the last look stays on the screen with the reason, and top tries again. It does not end by itself. With --json it needs no terminal, and writes one line for each look.`,
		exits: "  0   you quit\n  64  there is no terminal, and no --json\n  128+n  signal n",
		examples: `  holdfast top
  holdfast top --contended 'orders:*'
  holdfast top --json --interval 10s >>locks.jsonl`,
		flags: func(f *flags) {
			f.flag(&o.contended, "c contended", "only locks that somebody waits for")
			f.duration(&o.every, "i interval", "time from one look to the next; at least, and by default, 1s")
		},
		run: func(a *app, in input) int {
			_, _, screen := sizeOf(a.stdout)
			_, _, keyboard := sizeOf(a.stdin)
			switch {
			case len(in.args) > 1:
				return a.usage("top", errors.New("write only one pattern, in quotes, so that the shell does not expand it"))
			case o.every < time.Second:
				return a.usage("top", errors.New("--interval must be at least 1s"))
			case !a.json && (!screen || !keyboard):
				return a.usage("top", errors.New("it needs a terminal; holdfast ls and --json do not"))
			}
			if len(in.args) == 1 {
				o.pattern = in.args[0]
			}
			return a.withClient("top", func(ctx context.Context, client redis.UniversalClient) int {
				if a.json {
					return a.topJSON(ctx, client, o)
				}
				return a.top(ctx, client, o)
			})
		},
	}
}

// topOptions say what top looks at.
type topOptions struct {
	every     time.Duration
	contended bool
	pattern   string
}

const (
	topMost = 20_000 // the most locks that top keeps from one look at Redis
	topRest = 4      // top pauses for at least this many times the duration of its last look; for an exception see pause
	topWait = 30 * time.Second
)

// look is the result of one look at Redis.
type look struct {
	at    time.Time
	took  time.Duration
	name  string // the name of the lock that was read, or "" if all locks were read
	locks []inspect.Entry
	more  bool // locks were left out
	err   error
}

// lookAt reads the lock with this name, or all locks if name is "".
func (o topOptions) lookAt(ctx context.Context, client redis.UniversalClient, name string) (l look) {
	ctx, cancel := context.WithTimeout(ctx, topWait)
	defer cancel()
	l.name = name
	began := time.Now()
	defer func() { l.at, l.took = time.Now(), time.Since(began) }()
	if name != "" {
		e, err := inspect.Look(ctx, client, name)
		l.locks, l.err = []inspect.Entry{e}, err
		return l
	}
	for e, err := range inspect.List(ctx, client, inspect.ListOptions{Pattern: o.pattern, Contended: o.contended}) {
		if err != nil {
			l.err = err
			return l
		}
		if len(l.locks) == topMost {
			l.more = true
			return l
		}
		l.locks = append(l.locks, e)
	}
	return l
}

// pause returns the time from the end of a look to the start of the next look. Normally a look starts every o.every. But Redis is busy during a look,
// so the pause is at least topRest times as long as the look before it. If that look failed before topWait, Redis is probably unreachable, and the
// pause is o.every.
func (o topOptions) pause(l look) time.Duration {
	if l.err != nil && l.took < topWait {
		return o.every
	}
	return max(o.every-l.took, topRest*l.took)
}

type topJSONLine struct {
	At    time.Time  `json:"at"`
	Locks []lockJSON `json:"locks"`
}

// topJSON writes one line of JSON for each look that succeeds, until ctx ends or a line cannot be written.
func (a *app) topJSON(ctx context.Context, client redis.UniversalClient, o topOptions) int {
	for {
		l := o.lookAt(ctx, client, "")
		switch {
		case ctx.Err() != nil:
			return exitOK
		case l.err != nil:
			a.failed(l.err)
		default:
			line := topJSONLine{At: l.at.UTC(), Locks: []lockJSON{}}
			for _, e := range l.locks {
				line.Locks = append(line.Locks, jsonOf(e))
			}
			if code := printJSON(a.stdout, a, line); code != exitOK {
				return code
			}
		}
		select {
		case <-ctx.Done():
			return exitOK
		case <-time.After(o.pause(l)):
		}
	}
}
