package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/text"
	"github.com/holdfast-go/holdfast/inspect"
)

func showCommand() *command {
	watch := 2 * time.Second
	return &command{
		name: "show", args: "[flags] NAME",
		does:  "show everything about one lock",
		about: `Shows what Redis knows about the lock NAME: its kind, its holders and their processes, its waiters, the fencing token, the permits. If a held lock has a time to live, holdfast watches the lock for --for, and says whether its lease was renewed meanwhile. A lease of 30 s is renewed every 10 s, so watch for longer than that to be sure.`,
		exits: "  0   also if the lock is not in use\n  64  the command line is wrong, or no lock can have the name NAME\n  69  Redis cannot be reached or refuses, or the key holds something else",
		examples: `  holdfast show orders
  holdfast show --for 15s orders      # renewed, or a fixed lease, or a holder that is dead?
  holdfast show --for 0s --json orders`,
		flags: func(f *flags) {
			f.duration(&watch, "for", "how long to watch whether the lock is renewed; default 2s; 0s: not at all")
		},
		run: func(a *app, in input) int {
			if len(in.args) != 1 {
				return a.usage("show", errors.New("write the name of one lock"))
			}
			return a.withClient("show", func(ctx context.Context, client redis.UniversalClient) int {
				return a.show(ctx, client, in.args[0], watch)
			})
		},
	}
}

func (a *app) show(ctx context.Context, client redis.UniversalClient, name string, watch time.Duration) int {
	e, err := inspect.Look(ctx, client, name)
	if err != nil {
		return a.failed(err)
	}
	var seen *renewal
	if watch > 0 && len(e.Holders) > 0 && e.TTL >= 0 {
		if e, seen, err = watchRenewal(ctx, client, e, watch); err != nil {
			return a.failed(err)
		}
	}
	if a.json {
		l := jsonOf(e)
		if seen != nil {
			l.Renewed = &seen.renewed
		}
		return printJSON(a.stdout, a, l)
	}
	renewed := ""
	if seen != nil {
		renewed = seen.String()
	}
	var described strings.Builder
	describe(&described, newPainter(a.stdout), e, renewed)
	return a.write(described.String())
}

// renewal is what watchRenewal has seen of a lock's time to live.
type renewal struct {
	renewed bool
	after   time.Duration // how long the lock was watched
	before  time.Duration // the TTL before it was renewed
	since   time.Duration // the TTL after it was renewed
}

// watchRenewal reads a lock again and again until a holder's time to live rises. That means that the holder has renewed the lease, or has acquired
// the lock again with the same ID. watchRenewal gives up when the duration `watch` has passed, or when the lock is free.
func watchRenewal(
	ctx context.Context, client redis.UniversalClient, e inspect.Entry, watch time.Duration,
) (last inspect.Entry, seen *renewal, err error) {
	start := time.Now()
	seen = &renewal{}
	tick := time.NewTicker(max(20*time.Millisecond, min(watch/40, 200*time.Millisecond)))
	defer tick.Stop()
	for seen.after < watch {
		select {
		case <-ctx.Done():
			return e, seen, ctx.Err()
		case <-tick.C:
		}
		now, err := inspect.Look(ctx, client, e.Name)
		if err != nil {
			return e, seen, err
		}
		seen.after = time.Since(start)
		before := map[string]time.Duration{}
		for _, h := range e.Holders {
			before[h.ID] = h.TTL
		}
		for _, h := range now.Holders {
			if ttl, same := before[h.ID]; same && h.TTL > ttl+time.Millisecond {
				seen.renewed, seen.before, seen.since = true, ttl, h.TTL
				return now, seen, nil
			}
		}
		if e = now; len(e.Holders) == 0 {
			break
		}
	}
	return e, seen, nil
}

// describe writes a lock as a list of properties. renewed is a text that says whether the lock was renewed, or "" if nobody watched the lock.
func describe(to io.Writer, p painter, e inspect.Entry, renewed string) {
	put := func(title, format string, args ...any) {
		fmt.Fprintf(to, "%s %s\n", p.paint(faint, text.Pad(title, titleWidth)), fmt.Sprintf(format, args...))
	}
	put("name", "%s", p.paint(bold, text.Show(e.Name)))
	if e.Key != "" && e.Key != e.Name {
		put("key", "%s", text.Show(e.Key))
	}
	if e.Kind == "" {
		put("state", "not in use")
		return
	}
	put("kind", "%s", e.Kind)
	if e.Mode != "" && e.Mode != "exclusive" {
		put("mode", "%s", e.Mode)
	}
	for i, h := range e.Holders {
		if i == 100 {
			put("", "and %d more", len(e.Holders)-i)
			break
		}
		title := "held by"
		if i > 0 {
			title = ""
		}
		put(title, "%s", holderLine(h))
	}
	switch e.Kind {
	case holdfast.KindPermitSemaphore:
		put("permits", "%d, of which %d are available", e.Permits, e.Available)
	case holdfast.KindSemaphore, holdfast.KindLatch:
		put("count", "%d", e.Count)
	default:
		if len(e.Holders) == 0 {
			put("held by", "nobody")
		} else {
			put("TTL", "%s", showTTL(e.TTL))
		}
	}
	if renewed != "" {
		put("renewed", "%s", renewed)
	}
	put("waiting", "%d", e.Waiting)
	for i, id := range e.Queue {
		title := "queue"
		if i > 0 {
			title = ""
		}
		if i == 100 {
			put("", "and %d more", len(e.Queue)-i)
			break
		}
		put(title, "%d. %s", i+1, text.Show(id))
	}
	if e.Token != 0 {
		put("token", "%d", e.Token)
	}
}

const titleWidth = 9 // width of the title of a property, in columns

func holderLine(h inspect.Holder) string {
	parts := []string{text.Show(h.ID)}
	if h.Process.Name != "" {
		parts = append([]string{text.Show(h.Process.Name)}, parts...)
		if v := h.Process.Version; v != "" {
			parts = append(parts, "version "+text.Show(v))
		}
	}
	if _, number, _ := strings.Cut(h.ID, ":"); strings.HasPrefix(number, "-") {
		parts = append(parts, "released, kept WithAtLeast")
	}
	if h.Holds > 1 {
		parts = append(parts, fmt.Sprintf("%d holds", h.Holds))
	}
	return strings.Join(append(parts, "TTL "+showTTL(h.TTL)), ", ")
}

func (r *renewal) String() string {
	if r.renewed {
		return fmt.Sprintf("yes: after %.1fs its TTL rose from %s to %s", r.after.Seconds(), showTTL(r.before), showTTL(r.since))
	}
	text := notRenewed(r.after)
	if r.after < longWatch {
		text += ": try --for " + longWatch.String()
	}
	return text
}

// longWatch is long enough to see a renewal of a lease of 30 s.
const longWatch = 12 * time.Second

// notRenewed returns the text for a lock without a renewal. If it was watched for less than longWatch, the text says how often leases are
// renewed.
func notRenewed(watched time.Duration) string {
	text := "not within " + watched.Round(100*time.Millisecond).String()
	if watched < longWatch {
		text += "; a lease of 30s is renewed every 10s"
	}
	return text
}
