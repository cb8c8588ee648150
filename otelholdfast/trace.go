package otelholdfast

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/holdfast-go/holdfast"
)

// Trace returns a holdfast.Trace that makes spans and metrics. Assign it to Options.Trace. If the provider refuses an instrument, the error goes to
// otel.Handle, and the instrument measures nothing.
//
// Each acquire has a span holdfast.acquire, a child of the span in its context. The span ends when the acquire has its outcome. An acquire that waits
// longer than Options.SlowWait adds an event "waiting" to the span in its context, and is counted by the metric holdfast.waits.slow.
func Trace(options ...Option) *holdfast.Trace {
	r := newRecorder(configOf(options))
	return &holdfast.Trace{
		Acquiring: r.acquiring, Waiting: r.waiting, Released: r.released, Lost: r.lost, Renewed: r.renewed, Exchanged: r.exchanged,
		Leader: r.leader,
	}
}

type recorder struct {
	tracer    trace.Tracer
	group     func(kind holdfast.Kind, name string) string
	acquire   metric.Float64Histogram
	hold      metric.Float64Histogram
	losses    metric.Int64Counter
	margin    metric.Float64Histogram
	exchange  metric.Float64Histogram
	handovers metric.Int64Counter
	slow      metric.Int64Counter
	leading   metric.Int64UpDownCounter
}

// buckets are bounds of histograms in seconds, from a hand-over inside the process to a wait of minutes.
var buckets = metric.WithExplicitBucketBoundaries(
	.00001, .0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300)

func newRecorder(c config) *recorder {
	m := c.meters.Meter(scope)
	seconds := func(name, what string) metric.Float64Histogram {
		h, err := m.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(what), buckets)
		report(err)
		return h
	}
	counter := func(name, unit, what string) metric.Int64Counter {
		n, err := m.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(what))
		report(err)
		return n
	}
	leading, err := m.Int64UpDownCounter("holdfast.leader", metric.WithDescription("1 while this process leads the election, else 0."))
	report(err)
	return &recorder{
		tracer: c.tracers.Tracer(scope), group: c.group,
		acquire:   seconds("holdfast.acquire.duration", "From the call of an acquire to its outcome."),
		hold:      seconds("holdfast.hold.duration", "How long leases were held, however they ended."),
		losses:    counter("holdfast.leases.lost", "{lease}", "Leases that ended without a release by their holders."),
		margin:    seconds("holdfast.renew.margin", "The least time that a lease had left when the answer to its renewal came."),
		exchange:  seconds("holdfast.exchange.duration", "Duration of a pipeline of scripts with Redis."),
		handovers: counter("holdfast.handovers", "{acquire}", "Acquires that succeeded; local: without a call to Redis."),
		slow:      counter("holdfast.waits.slow", "{acquire}", "Acquires that have waited longer than Options.SlowWait."),
		leading:   leading,
	}
}

func report(err error) {
	if err != nil {
		otel.Handle(err)
	}
}

// about returns the attributes of a metric about a lock.
func (r *recorder) about(kind holdfast.Kind, name string, more ...attribute.KeyValue) metric.MeasurementOption {
	all := append(more, attribute.String("kind", string(kind)))
	if r.group != nil {
		if group := r.group(kind, name); group != "" {
			all = append(all, attribute.String("group", group))
		}
	}
	return metric.WithAttributeSet(attribute.NewSet(all...))
}

func (r *recorder) acquiring(ctx context.Context, a holdfast.Acquiring) func(holdfast.Acquired) {
	_, span := r.tracer.Start(ctx, "holdfast.acquire", trace.WithAttributes(
		attribute.String("holdfast.kind", string(a.Kind)), attribute.String("holdfast.name", a.Name), attribute.Bool("holdfast.try", a.Try)))
	return func(a holdfast.Acquired) {
		is := outcome(a.Err)
		defer end(span, a, is) // also if the function of WithGroup panics
		r.acquire.Record(ctx, a.Waited.Seconds(),
			r.about(a.Kind, a.Name, attribute.String("outcome", is), attribute.Bool("local", a.Local)))
		if a.Err == nil {
			r.handovers.Add(ctx, 1, r.about(a.Kind, a.Name, attribute.Bool("local", a.Local)))
		}
	}
}

func end(span trace.Span, a holdfast.Acquired, outcome string) {
	defer span.End()
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(
		attribute.String("holdfast.outcome", outcome), attribute.Float64("holdfast.wait", a.Waited.Seconds()),
		attribute.Int("holdfast.attempts", a.Attempts), attribute.Bool("holdfast.local", a.Local))
	if a.ID != "" {
		span.SetAttributes(attribute.String("holdfast.id", a.ID))
	}
	if a.Token != 0 {
		span.SetAttributes(attribute.Int64("holdfast.token", a.Token))
	}
	if a.Err != nil {
		span.RecordError(a.Err)
	}
	if outcome == "error" { // a taken lock is not an error of the program
		span.SetStatus(codes.Error, a.Err.Error())
	}
}

// outcome returns "acquired", "busy", "cancelled", "closed" or "error". "busy" means that others have the lock, or that the deadline of the context
// has passed. If the deadline has passed but Redis did not answer, the outcome is "error", because others may or may not have the lock.
func outcome(err error) string {
	switch {
	case err == nil:
		return "acquired"
	case errors.Is(err, context.Canceled):
		return "cancelled"
	case errors.Is(err, holdfast.ErrClosed):
		return "closed"
	case othersHave(err):
		return "busy"
	}
	return "error"
}

// othersHave reports whether all causes of an error are that others have the lock, or that the deadline has passed. Any other cause is a failure.
func othersHave(err error) bool {
	switch e := err.(type) { //nolint:errorlint // the switch must look at each cause; errors.As would find only the first one
	case *holdfast.BusyError:
		return true
	case interface{ Unwrap() []error }:
		return !slices.ContainsFunc(e.Unwrap(), func(cause error) bool { return !othersHave(cause) })
	}
	if cause := errors.Unwrap(err); cause != nil {
		return othersHave(cause)
	}
	return err == holdfast.ErrNotAcquired || err == context.DeadlineExceeded //nolint:errorlint // as above
}

func (r *recorder) waiting(ctx context.Context, w holdfast.Waiting) {
	r.slow.Add(ctx, 1, r.about(w.Kind, w.Name))
	trace.SpanFromContext(ctx).AddEvent("waiting", trace.WithAttributes(
		attribute.String("holdfast.kind", string(w.Kind)), attribute.String("holdfast.name", w.Name),
		attribute.String("holdfast.waited", w.Waited.Round(time.Millisecond).String()), attribute.String("holdfast.holder", w.Holder),
		attribute.Bool("holdfast.local", w.Local), attribute.Int("holdfast.ahead", w.Ahead)))
}

func (r *recorder) released(x holdfast.Released) {
	r.hold.Record(context.Background(), x.Held.Seconds(), r.about(x.Kind, x.Name))
}

func (r *recorder) lost(x holdfast.Lost) {
	r.hold.Record(context.Background(), x.Held.Seconds(), r.about(x.Kind, x.Name))
	r.losses.Add(context.Background(), 1, r.about(x.Kind, x.Name, attribute.String("reason", string(x.Reason))))
}

func (r *recorder) renewed(x holdfast.Renewed) {
	r.margin.Record(context.Background(), max(x.Margin, 0).Seconds(), metric.WithAttributes(attribute.String("outcome", answered(x.Err))))
}

func (r *recorder) exchanged(x holdfast.Exchanged) {
	r.exchange.Record(context.Background(), x.Took.Seconds(), metric.WithAttributes(attribute.String("outcome", answered(x.Err))))
}

// leader adds the election's name as an attribute. A program has few elections, and without the name the values of all elections would add up.
func (r *recorder) leader(c holdfast.LeaderChange) {
	change := int64(-1)
	if c.Leading {
		change = 1
	}
	r.leading.Add(context.Background(), change, metric.WithAttributes(attribute.String("name", c.Name)))
}

func answered(err error) string {
	if err != nil {
		return "error"
	}
	return "ok"
}
