// Quickstart shows what a Holdfast lock does, as a timeline: two runtimes, A and B, compete for the same locks, and a third one, C, crashes.
// Every scene checks that what it prints has really happened. If it has not, the program fails.
//
//	go run ./examples/quickstart
//	go run ./examples/quickstart -redis redis://user:password@host:6379/0
//
// Without -redis the program starts a Redis inside its own process. All its keys have a prefix of their own, and none is left at the end.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/redis/go-redis/v9"
)

const (
	exitOK     = 0
	exitFailed = 1 // the server cannot be reached, or a scene did not happen as described
	exitUsage  = 2
)

func main() {
	redis.SetLogger(quiet{}) // go-redis would log each failed dial in addition to the error that it returns
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

// run is the program with its dependencies as arguments. It returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("quickstart", flag.ContinueOnError)
	flags.SetOutput(stderr)
	url := flags.String("redis", "", "`URL` of a Redis server, redis://[user:password@]host:port[/db]; default: a Redis inside this process")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		return exitUsage // flags has printed the reason
	case flags.NArg() > 0:
		fmt.Fprintf(stderr, "quickstart: unexpected argument %q\n", flags.Arg(0))
		flags.Usage()
		return exitUsage
	}
	if *url != "" {
		if err := checkURL(*url); err != nil {
			fmt.Fprintf(stderr, "quickstart: -redis: %v\n", err)
			return exitUsage
		}
	}
	if err := play(ctx, *url, newTimeline(stdout), scenes); err != nil {
		fmt.Fprintf(stderr, "quickstart: %v\n", err)
		return exitFailed
	}
	return exitOK
}

// play opens the stage, plays the scenes one after another, and closes the stage.
func play(ctx context.Context, url string, out *timeline, scenes []scene) error {
	s, err := openStage(ctx, url, out)
	if err != nil {
		return err
	}
	for i, scene := range scenes {
		out.scene(i+1, len(scenes), scene.title)
		if err = s.perform(ctx, scene); err != nil {
			err = fmt.Errorf("%s: %w", scene.title, err)
			break
		}
	}
	return errors.Join(err, s.close(ctx))
}
