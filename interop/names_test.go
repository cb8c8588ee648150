package interop

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

// If both sides use the same name mapper, a name means the same lock on both sides, for every kind. Both sides also derive the same keys and channels
// from the name. The form of these depends on whether the prefix has a hash tag.
func TestInterop_NameMappers(t *testing.T) {
	d := redisson(t)
	for _, prefix := range []string{"shop:", "{shop}:"} {
		t.Run(prefix, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*locktest.Patience)
			defer cancel()
			p := singleServer(t)
			theirs := &javaSide{driver: d, client: "mapped-" + prefix}
			_, err := theirs.ask(ctx, "client-open", append(p.redisson, "prefix="+prefix)...)
			require.NoError(t, err)
			ours := &goSide{rt: locktest.NewRuntime(t, p.client(t), holdfast.Options{
				NameMapper: func(name string) string { return prefix + name },
			})}
			for _, k := range kinds {
				for _, d := range [][2]side{{theirs, ours}, {ours, theirs}} {
					holder, waiter := d[0], d[1]
					m := meet(t, p, k)
					held, waits := m.held(t, holder, 0), waiter.party(k.waiter(), m.name)
					granted := m.waiting(t, waiter, waits)
					began := time.Now()
					require.NoError(t, held.give(ctx))
					assert.Less(t, at(t, granted).Sub(began), locktest.Patience, "%s, %s holds", k.name, holder)
					if k.counter != "latch" {
						require.NoError(t, waits.give(ctx))
					}
				}
			}
			_, err = theirs.ask(ctx, "client-close")
			require.NoError(t, err)
		})
	}
}
