package otelholdfast_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/otelholdfast"
)

// telemetry is what a runtime reports.
type telemetry struct {
	reader *metric.ManualReader
	spans  *tracetest.SpanRecorder
	tracer *trace.TracerProvider
}

// observed runs a test in a bubble, with a runtime that is traced and observed.
func observed(t *testing.T, o []otelholdfast.Option, test func(t *testing.T, server *holdfasttest.Server, rt *holdfast.Runtime, got telemetry)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		got := telemetry{reader: metric.NewManualReader(), spans: tracetest.NewSpanRecorder()}
		got.tracer = trace.NewTracerProvider(trace.WithSpanProcessor(got.spans))
		meters := metric.NewMeterProvider(metric.WithReader(got.reader))
		o = append(o, otelholdfast.WithMeterProvider(meters), otelholdfast.WithTracerProvider(got.tracer))
		server := holdfasttest.New(t)
		rt := server.Runtime(holdfast.Options{SlowWait: time.Second, Trace: otelholdfast.Trace(o...)})
		registration, err := otelholdfast.Observe(rt, o...)
		require.NoError(t, err)
		test(t, server, rt, got)
		require.NoError(t, rt.Close(t.Context()))
		require.NoError(t, registration.Unregister())
		require.NoError(t, meters.Shutdown(t.Context()))
		require.NoError(t, got.tracer.Shutdown(t.Context()))
	})
}

// metrics are the metrics by name.
func (got telemetry) metrics(t *testing.T) map[string]metricdata.Aggregation {
	t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(t, got.reader.Collect(t.Context(), &all))
	found := map[string]metricdata.Aggregation{}
	for _, s := range all.ScopeMetrics {
		for _, m := range s.Metrics {
			assert.NotEmpty(t, m.Description)
			found[m.Name] = m.Data
		}
	}
	return found
}

// count returns how often a histogram or counter with these attributes was recorded.
func count(t *testing.T, of metricdata.Aggregation, attributes ...attribute.KeyValue) int64 {
	t.Helper()
	want := attribute.NewSet(attributes...)
	switch data := of.(type) {
	case metricdata.Histogram[float64]:
		for _, p := range data.DataPoints {
			if p.Attributes.Equals(&want) {
				return int64(p.Count) //nolint:gosec // small
			}
		}
	case metricdata.Sum[int64]:
		for _, p := range data.DataPoints {
			if p.Attributes.Equals(&want) {
				return p.Value
			}
		}
	case metricdata.Gauge[int64]:
		return data.DataPoints[0].Value
	default:
		t.Fatalf("unexpected %T", of)
	}
	return 0
}

var (
	kind  = attribute.String("kind", "lock")
	local = func(is bool) attribute.KeyValue { return attribute.Bool("local", is) }
	is    = func(outcome string) attribute.KeyValue { return attribute.String("outcome", outcome) }
)

func TestTrace_Metrics(t *testing.T) {
	observed(t, nil, func(t *testing.T, server *holdfasttest.Server, rt *holdfast.Runtime, got telemetry) {
		lock := rt.Lock("orders")
		lease, err := lock.Acquire(t.Context())
		require.NoError(t, err)
		_, err = lock.TryAcquire(t.Context())
		require.Error(t, err)
		pending := lock.AcquireAsync(t.Context())
		synctest.Wait()
		seen := got.metrics(t)
		assert.EqualValues(t, 1, count(t, seen["holdfast.leases"]))
		assert.EqualValues(t, 1, count(t, seen["holdfast.waiters"]))
		assert.EqualValues(t, 1, count(t, seen["holdfast.actors"]))
		require.NoError(t, lease.Release(t.Context()))
		_, err = pending.Lease()
		require.NoError(t, err)
		<-time.After(11 * time.Second)
		server.Lose("orders")
		<-time.After(10 * time.Second)
		synctest.Wait()
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = lock.Acquire(ended)
		require.Error(t, err)

		seen = got.metrics(t)
		duration := seen["holdfast.acquire.duration"]
		assert.EqualValues(t, 1, count(t, duration, kind, is("acquired"), local(false)))
		assert.EqualValues(t, 1, count(t, duration, kind, is("acquired"), local(true)))
		assert.EqualValues(t, 1, count(t, duration, kind, is("busy"), local(false)))
		assert.EqualValues(t, 1, count(t, duration, kind, is("cancelled"), local(false)))
		assert.EqualValues(t, 1, count(t, seen["holdfast.handovers"], kind, local(true)))
		assert.EqualValues(t, 2, count(t, seen["holdfast.hold.duration"], kind))
		assert.EqualValues(t, 1, count(t, seen["holdfast.leases.lost"], kind, attribute.String("reason", "deleted")))
		assert.EqualValues(t, 2, count(t, seen["holdfast.renew.margin"], is("ok")))
		assert.Positive(t, count(t, seen["holdfast.exchange.duration"], is("ok")))
		assert.EqualValues(t, 1, count(t, seen["holdfast.renewals"]))
		assert.Zero(t, count(t, seen["holdfast.renew.failures"]))
		assert.GreaterOrEqual(t, count(t, seen["holdfast.scripts"]), int64(4))
		assert.Zero(t, count(t, seen["holdfast.reconnects"]))
	})
}

// The span of an acquire is a child of the caller's span, and has the outcome as an attribute. A slow wait is an event of the
// caller's span.
func TestTrace_Spans(t *testing.T) {
	observed(t, nil, func(t *testing.T, _ *holdfasttest.Server, rt *holdfast.Runtime, got telemetry) {
		ctx, caller := got.tracer.Tracer("test").Start(t.Context(), "request")
		lease, err := rt.FencedLock("orders").Acquire(ctx)
		require.NoError(t, err)
		_, err = rt.FencedLock("orders").Acquire(ctx, holdfast.WithWait(2*time.Second))
		require.ErrorIs(t, err, holdfast.ErrNotAcquired)
		require.NoError(t, lease.Release(ctx))
		caller.End()

		ended := got.spans.Ended()
		require.Len(t, ended, 3)
		for _, span := range ended[:2] {
			assert.Equal(t, "holdfast.acquire", span.Name())
			assert.Equal(t, caller.SpanContext().SpanID(), span.Parent().SpanID())
			assert.NotEqual(t, codes.Error, span.Status().Code)
			assert.Contains(t, span.Attributes(), attribute.String("holdfast.name", "orders"))
			assert.Contains(t, span.Attributes(), attribute.Float64("holdfast.wait", span.EndTime().Sub(span.StartTime()).Seconds()))
		}
		assert.Contains(t, ended[0].Attributes(), attribute.String("holdfast.outcome", "acquired"))
		assert.Contains(t, ended[0].Attributes(), attribute.String("holdfast.id", lease.ID()))
		assert.Contains(t, ended[0].Attributes(), attribute.Int64("holdfast.token", lease.Token()))
		assert.Contains(t, ended[1].Attributes(), attribute.String("holdfast.outcome", "busy"))
		assert.Equal(t, 2*time.Second, ended[1].EndTime().Sub(ended[1].StartTime()))
		require.Len(t, ended[2].Events(), 1)
		assert.Equal(t, "waiting", ended[2].Events()[0].Name)
		assert.EqualValues(t, 1, count(t, got.metrics(t)["holdfast.waits.slow"], attribute.String("kind", string(holdfast.KindFenced))))
	})
}

func TestTrace_ErrorsAreThoseOfRedis(t *testing.T) {
	observed(t, nil, func(t *testing.T, server *holdfasttest.Server, rt *holdfast.Runtime, got telemetry) {
		server.Cut(rt)
		_, err := rt.Lock("orders").TryAcquire(t.Context())
		require.Error(t, err)
		assert.EqualValues(t, 1, count(t, got.metrics(t)["holdfast.acquire.duration"], kind, is("error"), local(false)))
		require.Len(t, got.spans.Ended(), 1)
		assert.Equal(t, codes.Error, got.spans.Ended()[0].Status().Code)
		server.Heal(rt)
		require.ErrorIs(t, rt.Semaphore("permits").TryAcquire(t.Context(), 1), holdfast.ErrNotAcquired)
		assert.EqualValues(t, 1, count(t, got.metrics(t)["holdfast.acquire.duration"],
			attribute.String("kind", string(holdfast.KindSemaphore)), is("busy"), local(false)), "no permit is available")
		server.Cut(rt)
		_, err = rt.Lock("orders").Acquire(t.Context(), holdfast.WithWait(time.Second))
		require.ErrorIs(t, err, holdfast.ErrNotAcquired)
		server.Heal(rt)
		<-time.After(10 * time.Second) // until the outage is over and the runtime has released the grant that the acquire may have left in Redis
		server.Cut(rt)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, rt.Semaphore("permits").Acquire(ctx, 1), context.DeadlineExceeded)
		seen := got.metrics(t)["holdfast.acquire.duration"]
		assert.EqualValues(t, 2, count(t, seen, kind, is("error"), local(false)))
		assert.EqualValues(t, 1, count(t, seen, attribute.String("kind", string(holdfast.KindSemaphore)), is("error"), local(false)))
		server.Heal(rt)
	})
}

// Metrics have no names of locks as attributes, only groups: locks of one group share one set of attributes.
func TestTrace_NamesAreNoAttributes(t *testing.T) {
	observed(t, []otelholdfast.Option{otelholdfast.WithGroup(otelholdfast.CollapseIDs)},
		func(t *testing.T, _ *holdfasttest.Server, rt *holdfast.Runtime, got telemetry) {
			for _, name := range []string{"order:1", "order:2", "order:4711"} {
				lease, err := rt.Lock(name).Acquire(t.Context())
				require.NoError(t, err)
				require.NoError(t, lease.Release(t.Context()))
			}
			group := attribute.String("group", "order:*")
			assert.EqualValues(t, 3, count(t, got.metrics(t)["holdfast.acquire.duration"], kind, is("acquired"), local(false), group))
		})
}

// If the function of WithGroup panics, metrics are lost, but the span is still reported.
func TestTrace_GroupPanics(t *testing.T) {
	group := func(_ holdfast.Kind, name string) string { return name[len("orders:"):] }
	observed(t, []otelholdfast.Option{otelholdfast.WithGroup(group)}, func(t *testing.T, _ *holdfasttest.Server, rt *holdfast.Runtime, got telemetry) {
		lease, err := rt.Lock("short").Acquire(t.Context())
		require.NoError(t, err)
		require.NoError(t, lease.Release(t.Context()))
		require.Len(t, got.spans.Ended(), 1)
	})
}

func TestCollapseIDs(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"orders":                "orders",
		"order:4711":            "order:*",
		"4711":                  "*",
		"{tenant-12}:order/7:x": "{tenant-*}:order/*:x",
		"job 3f2504e0-4f89-11d3-9a0c-0305e82c3301 done": "job * done",
		"job:35042500-4f89-11d3-9a0c-0305e82c3301":      "job:*",
		"blob:deadbeef01":         "blob:*",
		"v2:facade":               "v2:facade",
		"1:2:3":                   "*:*:*",
		"":                        "",
		"order:4711;order:4712;x": "order:*;order:*;x",
	} {
		assert.Equal(t, want, otelholdfast.CollapseIDs(holdfast.KindLock, name), name)
	}
}

// The gauge of an election is 1 while this process leads.
func TestTrace_Leader(t *testing.T) {
	observed(t, nil, func(t *testing.T, _ *holdfasttest.Server, rt *holdfast.Runtime, got telemetry) {
		leading := func() int64 {
			return count(t, got.metrics(t)["holdfast.leader"], attribute.String("name", "reports"))
		}
		require.NoError(t, rt.Election("reports", holdfast.ElectionOptions{}).Run(t.Context(), func(context.Context, holdfast.Term) error {
			synctest.Wait()
			assert.EqualValues(t, 1, leading())
			return holdfast.ErrResign
		}))
		assert.Zero(t, leading())
	})
}
