package otelholdfast

import (
	"context"

	"go.opentelemetry.io/otel/metric"

	"github.com/holdfast-go/holdfast"
)

// Observe reports the runtime's Stats as metrics. The Stats are read at each collection of the metrics. Observe returns an error if the meter
// provider refuses an instrument or the registration. Unregister the registration when the runtime is closed. With several runtimes in one process,
// give each a meter provider with a resource of its own.
func Observe(rt *holdfast.Runtime, options ...Option) (metric.Registration, error) {
	m := configOf(options).meters.Meter(scope)
	var err error
	var all []metric.Observable
	var read []func(o metric.Observer, s holdfast.Stats)
	note := func(failed error) {
		if err == nil {
			err = failed
		}
	}
	gauge := func(name, unit, what string, of func(holdfast.Stats) int) {
		g, failed := m.Int64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(what))
		note(failed)
		all = append(all, g)
		read = append(read, func(o metric.Observer, s holdfast.Stats) { o.ObserveInt64(g, int64(of(s))) })
	}
	counter := func(name, unit, what string, of func(holdfast.Stats) uint64) {
		c, failed := m.Int64ObservableCounter(name, metric.WithUnit(unit), metric.WithDescription(what))
		note(failed)
		all = append(all, c)
		read = append(read, func(o metric.Observer, s holdfast.Stats) { o.ObserveInt64(c, int64(of(s))) }) //nolint:gosec // counts that high are not reached
	}
	gauge("holdfast.leases", "{lease}", "Leases held now.", func(s holdfast.Stats) int { return s.Held })
	gauge("holdfast.waiters", "{acquire}", "Acquires that wait now.", func(s holdfast.Stats) int { return s.Waiting })
	gauge("holdfast.lingering", "{lock}", "Released locks that are kept for the next local acquire.", func(s holdfast.Stats) int { return s.Lingering })
	gauge("holdfast.actors", "{actor}", "Names that have an actor now.", func(s holdfast.Stats) int { return s.Actors })
	counter("holdfast.renewals", "{lease}", "Leases that were renewed.", func(s holdfast.Stats) uint64 { return s.Renewals })
	counter("holdfast.renew.failures", "{lease}", "Renewals that failed, and are retried.", func(s holdfast.Stats) uint64 { return s.RenewFailures })
	counter("holdfast.scripts", "{script}", "Scripts sent to Redis.", func(s holdfast.Stats) uint64 { return s.Scripts })
	counter("holdfast.reconnects", "{connection}", "Lost or refused subscriptions that were restored.", func(s holdfast.Stats) uint64 { return s.Reconnects })
	if err != nil {
		return nil, err
	}
	return m.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		s := rt.Stats()
		for _, f := range read {
			f(o, s)
		}
		return nil
	}, all...)
}
