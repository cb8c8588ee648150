package inspect

import (
	"context"
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// channels returns the channels on which releases of this name are published.
func (o *object) channels() []string {
	switch o.Kind {
	case protocol.KindRead, protocol.KindWrite:
		return []string{scripts.ReadWriteChannel(o.Name)}
	case protocol.KindPermitSemaphore:
		return []string{scripts.SemaphoreChannel(o.Name)}
	case protocol.KindSemaphore:
		return []string{scripts.SemaphoreChannel(o.Name), scripts.LatchChannel(o.Name)}
	case protocol.KindFair:
		if len(o.Queue) > 0 {
			return []string{scripts.LockChannel(o.Name), scripts.WaiterChannel(o.Name, o.Queue[0])}
		}
	}
	return []string{scripts.LockChannel(o.Name)}
}

// countWaiting counts the waiters of each object. For a fair lock it counts the waiters in the queue. For every other kind it counts the subscribers
// of the object's channels. A semaphore and a latch look the same in Redis: if only the channel of the latch has subscribers, countWaiting sets the
// kind to latch.
func (l *looker) countWaiting(ctx context.Context, objects []*object) error {
	var channels []string
	for _, o := range objects {
		channels = append(channels, o.channels()...)
	}
	if len(channels) == 0 {
		return nil
	}
	plain, sharded := map[string]int64{}, map[string]int64{}
	err := eachMaster(ctx, l.client, func(master redis.UniversalClient, clustered bool) error {
		here := master.PubSubNumSub(ctx, channels...)
		if err := errors.Join(count(plain, here), countRows(ctx, master, here.Val(), plain)); err != nil || !clustered {
			return err
		}
		err := count(sharded, master.PubSubShardNumSub(ctx, channels...))
		l.shards = err == nil
		return ifSharded(err)
	})
	if err != nil {
		return err
	}
	for _, o := range objects {
		for _, channel := range o.channels() {
			o.plain += plain[channel]
			o.sharded += sharded[channel]
		}
		o.Waiting = int(o.plain + o.sharded)
		if o.Kind == protocol.KindFair {
			o.Waiting = len(o.Queue)
		}
		semaphore := scripts.SemaphoreChannel(o.Name)
		if o.Kind == protocol.KindSemaphore && o.Waiting > 0 && plain[semaphore]+sharded[semaphore] == 0 {
			o.Kind, o.Available = protocol.KindLatch, 0
		}
	}
	return nil
}

// countRows counts the processes that wait for a lock without subscribing to its channel. When very many processes wait, the processes at the back
// subscribe to the channel of their row instead of the lock's channel (scripts/lib/crowd.lua). countRows adds the number of these processes to `sum`.
// `subscribers` has the number of subscribers of each lock's channel at this server. The keys of both maps are the locks' channels. If a lock's
// channel has fewer than CrowdLeast subscribers, no process subscribes to the channel of a row, so countRows skips the lock.
func countRows(ctx context.Context, master redis.UniversalClient, subscribers, sum map[string]int64) error {
	for channel, n := range subscribers {
		if n < scripts.CrowdLeast || !scripts.HasRows(channel) {
			continue
		}
		rows, err := master.PubSubChannels(ctx, scripts.RowPattern(channel)).Result()
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			continue
		}
		each, err := master.PubSubNumSub(ctx, rows...).Result()
		if err != nil {
			return err
		}
		for _, n := range each {
			sum[channel] += n
		}
	}
	return nil
}

func count(sum map[string]int64, cmd *redis.MapStringIntCmd) error {
	for channel, n := range cmd.Val() {
		sum[channel] += n
	}
	return cmd.Err()
}

// channelsOf returns the channels that belong to locks and have at least one subscriber.
func channelsOf(ctx context.Context, client redis.UniversalClient) (channels []string, err error) {
	err = eachMaster(ctx, client, func(master redis.UniversalClient, clustered bool) error {
		plain := master.PubSubChannels(ctx, scripts.ChannelPattern)
		channels = append(channels, plain.Val()...)
		if plain.Err() != nil || !clustered {
			return plain.Err()
		}
		sharded := master.PubSubShardChannels(ctx, scripts.ChannelPattern)
		channels = append(channels, sharded.Val()...)
		return ifSharded(sharded.Err())
	})
	return channels, err
}

// ifSharded returns nil for the error with which a server older than Redis 7 answers, because it does not know sharded messages. ifSharded returns
// any other error unchanged.
func ifSharded(err error) error {
	if err != nil && !isSilence(err) && strings.HasPrefix(err.Error(), "ERR ") {
		return nil
	}
	return err
}

// eachMaster calls f for every server that has keys, because a subscription may be at any of them. The calls are made one after the other. If
// at least one server answers, eachMaster ignores the servers that do not answer, and their subscriptions are not counted.
func eachMaster(ctx context.Context, client redis.UniversalClient, f func(master redis.UniversalClient, clustered bool) error) error {
	masters, err := mastersOf(ctx, client)
	if err != nil {
		return err
	}
	_, clustered := client.(*redis.ClusterClient)
	var silent error
	answered := 0
	for _, master := range masters {
		err := f(master, clustered)
		switch {
		case err == nil:
			answered++
		case !isSilence(err) || ctx.Err() != nil:
			return err
		default:
			silent = err
		}
	}
	if answered == 0 {
		return silent
	}
	return nil
}
