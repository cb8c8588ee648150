package inner

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/scripts"
)

// contender is one way to do a workload. It is opened once for each benchmark; its load can then be measured several times.
type contender struct {
	name string
	open func(tb testing.TB, goroutines int, nameOf func(goroutine int) string) load
}

// lease is so long that renewals do not affect the measurements.
const lease = 30 * time.Second

var site = scripts.Site{Publish: "PUBLISH"}

// acquireCall returns the command of Holdfast's own acquire. It may be sent repeatedly.
func acquireCall(lock, grant string) []any {
	call := scripts.Lock.Acquire(&site, lock, scripts.Terms{Grant: grant, Lease: lease})
	call.SetNotAfter(time.Now().Add(24 * time.Hour).UnixMilli())
	return call.Command
}

// granted returns nil if the command was an acquire that got its lock.
func granted(command *redis.Cmd) error {
	if err := command.Err(); err != nil {
		return err
	}
	acquired, err := scripts.ReadAcquired(command.Val(), command.Args()[4].(string))
	if err == nil && !acquired.Granted {
		err = fmt.Errorf("taken for %v", acquired.TTL)
	}
	return err
}

func loadScripts(tb testing.TB, client *redis.Client) {
	for _, s := range []*scripts.Script{scripts.Lock.Acquire(&site, "", scripts.Terms{}).Script} {
		if err := client.ScriptLoad(context.Background(), s.Source).Err(); err != nil {
			tb.Fatal(err)
		}
	}
}
