package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/text"
	"github.com/holdfast-go/holdfast/inspect"
)

func freeCommand() *command {
	yes := false
	return &command{
		name: "free", args: "[flags] NAME",
		does: "free a lock by force",
		about: `Frees the lock NAME, no matter who holds it, and wakes its waiters. For a permit semaphore it takes back the acquired permits, at most 10000. The holder learns of the loss at its next renewal, or at the end of a lease that is not renewed. Until then it keeps working, at the same time as the next holder. So free a lock only if you know that its holder is gone.

On a terminal, holdfast shows the lock and asks first; it asks again if the holders have changed meanwhile. Elsewhere --yes is needed.`,
		exits:    "  0   freed\n  1   it was not held, or you said no\n  64  there is no terminal to ask on, and no --yes; or NAME is a semaphore or a latch, which has no holders\n  69  Redis cannot be reached, or refuses",
		examples: "  holdfast free orders\n  holdfast free --yes orders",
		flags:    func(f *flags) { f.flag(&yes, "y yes", "do not ask") },
		run: func(a *app, in input) int {
			_, _, terminal := sizeOf(a.stdin)
			switch {
			case len(in.args) != 1:
				return a.usage("free", errors.New("write the name of one lock"))
			case !yes && !terminal:
				return a.usage("free", errors.New("without a terminal to ask on, --yes is needed"))
			}
			return a.withClient("free", func(ctx context.Context, client redis.UniversalClient) int {
				return a.free(ctx, client, in.args[0], yes)
			})
		},
	}
}

func (a *app) free(ctx context.Context, client redis.UniversalClient, name string, yes bool) int {
	var shown inspect.Entry
	for !yes {
		e, err := inspect.Look(ctx, client, name)
		if err != nil {
			return a.failed(err)
		}
		if len(e.Holders) == 0 || sameHolders(shown, e) {
			break
		}
		if len(shown.Holders) > 0 {
			a.say("%s has another holder by now; nothing was freed", text.Show(name))
		}
		describe(a.stderr, newPainter(a.stderr), e, "")
		if !a.agreed(ctx, "Free "+text.Show(name)+" by force? [y/N] ") {
			a.say("left as it is")
			return exitNo
		}
		shown = e
	}
	freed, err := inspect.Free(ctx, client, name)
	if err != nil {
		return a.failed(err)
	}
	switch {
	case a.json:
		if code := printJSON(a.stdout, a, map[string]any{"name": name, "freed": freed}); code != exitOK {
			return code
		}
	case freed:
		return a.write("freed " + text.Show(name) + "\n")
	default:
		a.say("%s was not held", text.Show(name))
	}
	if !freed {
		return exitNo
	}
	return exitOK
}

// sameHolders reports whether a lock still has the holders that were shown to the user. If the holders have changed, the user has not agreed to end
// the leases of the new ones.
func sameHolders(before, now inspect.Entry) bool {
	return slices.EqualFunc(before.Holders, now.Holders, func(a, b inspect.Holder) bool { return a.ID == b.ID })
}

// agreed asks a question on the terminal, and reports whether the user says yes.
func (a *app) agreed(ctx context.Context, question string) bool {
	fmt.Fprint(a.stderr, question)
	answer := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(a.stdin).ReadString('\n')
		answer <- line
	}()
	select {
	case <-ctx.Done():
		fmt.Fprintln(a.stderr)
		return false
	case line := <-answer:
		word := strings.ToLower(strings.TrimSpace(line))
		return word == "y" || word == "yes"
	}
}
