package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/inspect"
)

func lsCommand() *command {
	contended := false
	return &command{
		name: "ls", args: "[flags] [PATTERN]",
		does: "list the locks that are in use",
		about: `Lists the locks that are in use: their name, kind, holder, process, the time until Redis frees them unless they are renewed, and the number of waiters. PATTERN is matched as the command KEYS of Redis does: * ? [ab].

On a terminal, contended locks come first, and long values are shortened. Elsewhere the columns are separated by tabs, and lines appear as the locks are found. Names that are not printable are shown in quotes, escaped as in Go.

All keys are scanned in small steps. This does not delay other clients, but takes a while if there are millions of keys. --contended reads the channels that have subscribers instead, which is quick no matter how many keys there are. It does not find waiters of spin locks, because they do not subscribe. Redis stores no kind, so the kind is the one that the keys show: a spin lock looks like a lock.`,
		exits: "  0   the list is complete\n  69  Redis cannot be reached, or refuses",
		examples: `  holdfast ls
  holdfast ls 'orders:*'
  holdfast ls --contended
  holdfast ls --json | jq -r 'select(.waiting > 0) | .name'`,
		flags: func(f *flags) { f.flag(&contended, "c contended", "only locks that somebody waits for") },
		run: func(a *app, in input) int {
			o := inspect.ListOptions{Contended: contended}
			switch len(in.args) {
			case 0:
			case 1:
				o.Pattern = in.args[0]
			default:
				return a.usage("ls", errors.New("write only one pattern, in quotes, so that the shell does not expand it"))
			}
			return a.withClient("ls", func(ctx context.Context, client redis.UniversalClient) int { return a.list(ctx, client, o) })
		},
	}
}

func (a *app) list(ctx context.Context, client redis.UniversalClient, o inspect.ListOptions) int {
	out := bufio.NewWriter(a.stdout)
	code := a.listTo(ctx, client, o, out)
	if err := out.Flush(); err != nil && code == exitOK {
		return a.unwritten(err)
	}
	return code
}

func (a *app) listTo(ctx context.Context, client redis.UniversalClient, o inspect.ListOptions, out *bufio.Writer) int {
	columns, _, terminal := sizeOf(a.stdout)
	if terminal && !a.json {
		return a.table(ctx, client, o, out, columns)
	}
	if !a.json {
		return a.rows(ctx, client, o, out)
	}
	for e, err := range inspect.List(ctx, client, o) {
		if err != nil {
			_ = out.Flush()
			return a.failed(err)
		}
		if code := printJSON(a.stdout, a, jsonOf(e)); code != exitOK {
			return code
		}
	}
	return exitOK
}

// rows writes the list for other programs, with tabs between the columns. It writes the titles only after Redis has answered.
func (a *app) rows(ctx context.Context, client redis.UniversalClient, o inspect.ListOptions, out *bufio.Writer) int {
	put := func(row [columnCount]string) error {
		_, err := fmt.Fprintln(out, strings.Join(row[:], "\t"))
		return err
	}
	titled := sync.OnceFunc(func() { _ = put(titles) }) // a write error is returned again by the next write and by Flush
	for e, err := range inspect.List(ctx, client, o) {
		if err != nil {
			_ = out.Flush()
			return a.failed(err)
		}
		titled()
		_ = put(cells(e, false)) // Flush returns its error again
		if err := out.Flush(); err != nil {
			return a.unwritten(err)
		}
	}
	titled()
	return exitOK
}

// table writes the list for a terminal.
func (a *app) table(ctx context.Context, client redis.UniversalClient, o inspect.ListOptions, out *bufio.Writer, columns int) int {
	var entries []inspect.Entry
	for e, err := range inspect.List(ctx, client, o) {
		if err != nil {
			return a.failed(err)
		}
		entries = append(entries, e)
	}
	slices.SortFunc(entries, byContention)
	rows := make([][columnCount]string, len(entries))
	for i, e := range entries {
		rows[i] = cells(e, true)
	}
	w, paint := widths(rows, columns), newPainter(a.stdout)
	fmt.Fprintln(out, paint.paint(faint, line(titles, w)))
	for i, row := range rows {
		fmt.Fprintln(out, paint.paint(styleOf(entries[i]), line(row, w)))
	}
	if len(rows) == 0 {
		_ = out.Flush()
		a.say("no locks are in use")
	}
	return exitOK
}

// byContention sorts locks by their number of waiters, most first, and then by name.
func byContention(x, y inspect.Entry) int {
	return cmp.Or(cmp.Compare(y.Waiting, x.Waiting), cmp.Compare(x.Name, y.Name))
}

func styleOf(e inspect.Entry) string {
	if e.Waiting > 0 {
		return warn
	}
	return plainStyle
}
