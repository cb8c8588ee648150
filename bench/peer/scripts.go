package peer

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/scripts"
)

// Three contenders, bare-evalsha, bare-batches and raw, send Holdfast's scripts for acquire and release, but do not use its runtime. They show
// what the Redis client and the server cost without the runtime.

var site = scripts.Site{Publish: "PUBLISH"}

// acquireCall and releaseCall return the commands of one pair. They may be sent repeatedly.
func acquireCall(lock, grant string, lease time.Duration) []any {
	call := scripts.Lock.Acquire(&site, lock, scripts.Terms{Grant: grant, Lease: lease})
	call.SetNotAfter(time.Now().Add(24 * time.Hour).UnixMilli())
	return call.Command
}

func releaseCall(lock, grant string) []any {
	return scripts.Lock.Release(&site, lock, scripts.Terms{Grant: grant}).Command
}

// granted reads the reply to an acquire.
func granted(command *redis.Cmd) (bool, error) {
	if err := command.Err(); err != nil {
		return false, err
	}
	acquired, err := scripts.ReadAcquired(command.Val(), command.Args()[4].(string))
	return acquired.Granted, err
}

func loadScripts(ctx context.Context, client *redis.Client) error {
	for _, s := range []*scripts.Script{scripts.Lock.Acquire(&site, "", scripts.Terms{}).Script, scripts.Lock.Release(&site, "", scripts.Terms{}).Script} {
		if err := client.ScriptLoad(ctx, s.Source).Err(); err != nil {
			return fmt.Errorf("load the scripts: %w", err)
		}
	}
	return nil
}

// grants generates owner fields in Holdfast's format.
type grants struct {
	id   string
	last atomic.Uint64
}

func newGrants() *grants { return &grants{id: uuid.NewString() + ":"} }

func (g *grants) next() string { return g.id + strconv.FormatUint(g.last.Add(1), 10) }
