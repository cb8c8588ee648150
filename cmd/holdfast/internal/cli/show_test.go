package cli

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-go/holdfast/inspect"
)

func TestHolderLine_SaysThatALockIsKept(t *testing.T) {
	t.Parallel()
	kept := inspect.Holder{ID: "4f9c6b1e-0000-4000-8000-000000000000:-5095", TTL: 9 * time.Second}
	assert.Equal(t, kept.ID+", released, kept WithAtLeast, TTL 9.0s", holderLine(kept))
	held := inspect.Holder{ID: "4f9c6b1e-0000-4000-8000-000000000000:5095", TTL: 9 * time.Second}
	assert.Equal(t, held.ID+", TTL 9.0s", holderLine(held))
}

func TestRenewal_AShortWatchProvesNothing(t *testing.T) {
	t.Parallel()
	for watched, text := range map[time.Duration]string{
		2003 * time.Millisecond:   "not within 2s; a lease of 30s is renewed every 10s: try --for 12s",
		11_999 * time.Millisecond: "not within 12s; a lease of 30s is renewed every 10s: try --for 12s",
		12_004 * time.Millisecond: "not within 12s",
		time.Minute:               "not within 1m0s",
	} {
		assert.Equal(t, text, (&renewal{after: watched}).String())
	}
	assert.Equal(t, "yes: after 1.2s its TTL rose from 20s to 30s", (&renewal{
		renewed: true, after: 1200 * time.Millisecond, before: 20 * time.Second, since: 30 * time.Second,
	}).String())
}
