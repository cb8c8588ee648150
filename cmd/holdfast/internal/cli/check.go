package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/text"
	"github.com/holdfast-go/holdfast/protocol"
)

type checkJSON struct {
	OK       bool          `json:"ok"`
	Findings []findingJSON `json:"findings"`
}

type findingJSON struct {
	What   string `json:"what"`
	Why    string `json:"why"`
	Remedy string `json:"remedy"`
}

func checkCommand() *command {
	var only []holdfast.Kind
	prefix := ""
	return &command{
		name: "check", args: "[flags]",
		does:     "check whether the server is fit for locks",
		about:    `Checks whether the server and the user's rights are enough for locks: whether the server can be reached, its version and role, the right to each command, key and channel, and settings that endanger locks. It uses throw-away names, which are gone afterwards. It lists the problems, the most important first, each with a remedy.`,
		exits:    "  0   everything is well\n  1   there are problems\n  64  the command line is wrong",
		examples: "  holdfast check\n  holdfast check --kinds lock,fenced --prefix orders:   # for a user without rights for other locks",
		flags: func(f *flags) {
			f.kindList(&only)
			f.text(&prefix, "prefix", "TEXT", "the beginning of all names, as with acl; default: any names")
		},
		run: func(a *app, in input) int {
			if len(in.args) > 0 {
				return a.usage("check", errors.New("it takes no arguments"))
			}
			if err := protocol.CheckName(prefix + "x"); err != nil { // otherwise each kind would fail, and with a remedy for programs
				return a.usage("check", fmt.Errorf("--prefix: %w", err))
			}
			return a.withClient("check", func(ctx context.Context, client redis.UniversalClient) int {
				return a.check(ctx, client, prefix, only)
			})
		},
	}
}

func (a *app) check(ctx context.Context, client redis.UniversalClient, prefix string, only []holdfast.Kind) int {
	o := holdfast.Options{Logger: slog.New(slog.DiscardHandler)} // check prints the findings itself
	if prefix != "" {
		o.NameMapper = func(name string) string { return prefix + name }
	}
	rt, err := holdfast.New(client, o)
	if err != nil {
		return a.failed(err)
	}
	defer closeRuntime(rt)
	err = rt.CheckFor(ctx, only...)
	report := checkJSON{OK: err == nil, Findings: []findingJSON{}}
	failed, found := errors.AsType[*holdfast.CheckError](err)
	if found {
		for _, f := range failed.Findings {
			report.Findings = append(report.Findings, findingJSON(f))
		}
	}
	var code int
	switch {
	case err != nil && !found:
		return a.failed(err)
	case a.json:
		code = printJSON(a.stdout, a, report)
	case err == nil:
		code = a.write("everything is well\n")
	default:
		code = a.write(text.Message(err.Error()) + "\n")
	}
	if err != nil {
		return exitNo
	}
	return code
}
