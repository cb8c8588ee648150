package peer

import (
	"context"
	"fmt"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

var rueidislockPeer = &Peer{
	Name:    "rueidislock",
	About:   "rueidislock with KeyMajority 1, NoLoopTracking, and TryNextAfter as long as the lease: with one key there is no next key to try",
	Source:  "rueidislock's README, for a single Redis of 7.0.5 or later; TryNextAfter because after its 20 ms a slow reply leaves the caller waiting for ever",
	Role:    Library,
	Kinds:   exclusiveOnly,
	Renews:  true,
	Modules: []string{"github.com/redis/rueidis"},
	Keys:    func(name string) []string { return rueidislockKeys(name, 1) },
	Open: func(_ context.Context, env Env) (Client, error) {
		return openRueidislock(env, rueidislock.LockerOption{KeyMajority: 1, NoLoopTracking: true, TryNextAfter: env.Lease})
	},
}

var rueidislockDefaultPeer = &Peer{
	Name:    "rueidislock-default",
	About:   "rueidislock with its defaults: KeyMajority 2, three keys for each lock",
	Source:  "the defaults of rueidislock.LockerOption",
	Role:    Library,
	Kinds:   exclusiveOnly,
	Renews:  true,
	Modules: []string{"github.com/redis/rueidis"},
	Keys:    func(name string) []string { return rueidislockKeys(name, 3) },
	Open: func(_ context.Context, env Env) (Client, error) {
		return openRueidislock(env, rueidislock.LockerOption{})
	},
}

const rueidislockPrefix = "rueidislock"

func rueidislockKeys(name string, n int) (keys []string) {
	for i := range n {
		keys = append(keys, fmt.Sprintf("%s:%d:%s", rueidislockPrefix, i, name))
	}
	return keys
}

type rueidislockClient struct{ locker rueidislock.Locker }

func openRueidislock(env Env, option rueidislock.LockerOption) (Client, error) {
	option.ClientOption = rueidis.ClientOption{InitAddress: []string{env.Redis}}
	option.KeyPrefix = rueidislockPrefix
	option.KeyValidity = env.Lease
	option.ExtendInterval = env.Lease / 3 // like all other contenders; the default is half of the validity
	locker, err := rueidislock.NewLocker(option)
	if err != nil {
		return nil, err
	}
	return rueidislockClient{locker}, nil
}

func (c rueidislockClient) Acquire(ctx context.Context, _ Kind, name string) (Held, error) {
	_, release, err := c.locker.WithContext(ctx, name)
	if err != nil {
		return nil, err
	}
	return rueidislockHeld(release), nil
}

func (c rueidislockClient) Close() error {
	c.locker.Close()
	return nil
}

type rueidislockHeld context.CancelFunc

func (h rueidislockHeld) Release(context.Context) error {
	h()
	return nil
}
