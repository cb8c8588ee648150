package inspect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

func foreign(what string) error {
	return fmt.Errorf("%w: the key holds %s", protocol.ErrForeignKey, what)
}

// check returns an error for a client that cannot be used. A Ring would silently leave out the keys of some of its servers. With fewer than -1
// retries or redirects, go-redis does not make the first attempt either: it sends nothing, and reports success.
func check(client redis.UniversalClient) error {
	further := 0
	switch c := client.(type) {
	case nil:
		return fmt.Errorf("%w client: it is nil", protocol.ErrInvalid)
	case *redis.Ring:
		return fmt.Errorf("%w client: %T is not supported, look at each of its servers", protocol.ErrInvalid, client)
	case *redis.Client:
		further = c.Options().MaxRetries
	case *redis.ClusterClient:
		further = min(c.Options().MaxRetries, c.Options().MaxRedirects)
	}
	if further < -1 {
		return fmt.Errorf("%w client: its MaxRetries or MaxRedirects is %d, must be at least -1", protocol.ErrInvalid, further)
	}
	return nil
}

// send sends a pipeline and returns the first error of its commands. It ignores the errors for which tolerable returns nil, and those for which a
// function in tolerated returns true.
func (l *looker) send(ctx context.Context, fill func(p redis.Pipeliner), tolerated ...func(error) bool) error {
	cmds, err := l.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		fill(p)
		return nil
	})
	failed := func(cmd redis.Cmder) bool { return cmd.Err() != nil }
	if !slices.ContainsFunc(cmds, failed) {
		return err // if the server refuses the connection, go-redis returns an error, but sets no command's error
	}
next:
	for _, cmd := range cmds {
		err := tolerable(cmd.Err())
		for _, may := range tolerated {
			if err == nil || may(err) {
				continue next
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// tolerable returns nil for an error that only says that a key does not exist or has the wrong type. It returns any other error unchanged.
func tolerable(err error) error {
	if err == nil || err == redis.Nil || redis.HasErrorPrefix(err, "WRONGTYPE") { //nolint:errorlint // a wrapped redis.Nil means that the Sentinels do not know the master
		return nil
	}
	return err
}

// isKeyDenied reports whether an error means that the user may run the command, but may not read the key.
func isKeyDenied(err error) bool {
	return scripts.IsDenied(err) && strings.Contains(err.Error(), " key")
}

// isSilence reports whether an error means that no server has answered.
func isSilence(err error) bool {
	var reply redis.Error
	return !errors.As(err, &reply)
}

// masterOf returns a client of the server that has a key.
func masterOf(ctx context.Context, client redis.UniversalClient, key string) (redis.UniversalClient, error) {
	if cluster, ok := client.(*redis.ClusterClient); ok {
		return cluster.MasterForKey(ctx, key)
	}
	return client, nil
}
