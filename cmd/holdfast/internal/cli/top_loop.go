package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/text"
	"github.com/holdfast-go/holdfast/inspect"
)

const (
	enterScreen = "\x1b[?1049h\x1b[?25l\x1b[?7l" // alternate screen, no cursor, no wrapping at the right edge
	leaveScreen = "\x1b[?7h\x1b[?25h\x1b[?1049l"
)

// top shows the locks until the user quits or ctx ends. Then it restores the terminal.
func (a *app) top(ctx context.Context, client redis.UniversalClient, o topOptions) int {
	restore, err := readKeys(a.stdin)
	if err != nil {
		a.say("the terminal: %v", err)
		return exitSystem
	}
	a.quiet = true // the view shows errors itself
	fmt.Fprint(a.stdout, enterScreen)
	leave := func() { fmt.Fprint(a.stdout, leaveScreen); restore() }
	defer func() { leave() }()

	view := newTopView(o, connectedTo(client))
	keys := keysOf(a.stdin)
	resized, suspended := terminalSignals()
	looks, freed := make(chan look, 1), make(chan string, 1)
	looking, due := false, time.After(0)
	passing := time.NewTicker(time.Second) // refreshes the times on the screen
	defer passing.Stop()
	for {
		a.draw(view)
		select {
		case <-ctx.Done():
			return exitOK
		case k, open := <-keys:
			if !open {
				return exitOK // the terminal is gone
			}
			switch view.press(k) {
			case topQuit:
				return exitOK
			case topLook:
				due = time.After(0)
			case topFree:
				go func(asked inspect.Entry) { freed <- freeByForce(ctx, client, asked) }(view.asked)
			}
		case view.note = <-freed:
			due = time.After(0)
		case l := <-looks:
			if warning := a.warning.Load(); warning != nil && errors.Is(l.err, context.DeadlineExceeded) {
				l.err = errors.New(*warning)
			}
			view.see(l)
			looking, due = false, time.After(o.pause(l))
			if view.wants() != l.name {
				due = time.After(0)
			}
		case <-due:
			if !looking && !view.paused {
				looking = true
				go func(name string) { looks <- o.lookAt(ctx, client, name) }(view.wants())
			}
		case <-passing.C:
		case <-resized:
		case <-suspended:
			leave()
			suspend(suspended)
			if restore, err = readKeys(a.stdin); err != nil {
				restore = func() {}
				return exitSystem
			}
			fmt.Fprint(a.stdout, enterScreen)
		}
	}
}

// draw writes the whole screen. The terminal cuts lines that are too wide.
func (a *app) draw(view *topView) {
	columns, rows, _ := sizeOf(a.stdout)
	out := bufio.NewWriter(a.stdout)
	defer func() { _ = out.Flush() }()
	fmt.Fprint(out, "\x1b[H")
	for i, line := range view.screen(columns, rows, newPainter(a.stdout)) {
		if i > 0 {
			fmt.Fprint(out, "\r\n")
		}
		fmt.Fprint(out, "\x1b[K"+line) // clears the line before writing it: clearing it afterwards would erase the last character of a full line
	}
	fmt.Fprint(out, "\x1b[J")
}

// freeByForce frees a lock if it still has the holders that the user has seen, and returns a text that says what has happened.
func freeByForce(ctx context.Context, client redis.UniversalClient, asked inspect.Entry) string {
	freed := false
	now, err := inspect.Look(ctx, client, asked.Name)
	if err == nil && len(now.Holders) > 0 {
		if !sameHolders(asked, now) {
			return text.Show(asked.Name) + " has another holder by now; nothing was freed"
		}
		freed, err = inspect.Free(ctx, client, asked.Name)
	}
	switch {
	case err != nil:
		return text.Line(err.Error())
	case !freed:
		return text.Show(asked.Name) + " was not held"
	}
	return "freed " + text.Show(asked.Name)
}

// connectedTo says which server a client uses. A client of Sentinels does not know the master's address; go-redis puts the word "FailoverClient" in
// its place.
func connectedTo(client redis.UniversalClient) string {
	switch c := client.(type) {
	case *redis.Client:
		if c.Options().Addr == "FailoverClient" {
			return "the Sentinels' master"
		}
		return c.Options().Addr
	case *redis.ClusterClient:
		return fmt.Sprintf("cluster at %s", c.Options().Addrs[0])
	}
	return ""
}
