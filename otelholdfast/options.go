package otelholdfast

import (
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/holdfast-go/holdfast"
)

// Option changes what Trace and Observe do.
type Option func(*config)

type config struct {
	meters  metric.MeterProvider
	tracers trace.TracerProvider
	group   func(kind holdfast.Kind, name string) string
}

// WithMeterProvider sets where the metrics go. Default otel.GetMeterProvider.
func WithMeterProvider(p metric.MeterProvider) Option { return func(c *config) { c.meters = p } }

// WithTracerProvider sets where the spans go. Default otel.GetTracerProvider.
func WithTracerProvider(p trace.TracerProvider) Option { return func(c *config) { c.tracers = p } }

// WithGroup adds the attribute "group" to the metrics of Trace. The function returns the value of the attribute for a lock; if it returns "", the
// attribute is left out. Without WithGroup, only holdfast.leader has a name as an attribute. Let the function return few different texts: see
// CollapseIDs. The SDK keeps at most 2000 sets of attributes for an instrument, so a different value for each of many locks would make the instrument
// useless.
func WithGroup(group func(kind holdfast.Kind, name string) string) Option {
	return func(c *config) { c.group = group }
}

func configOf(options []Option) config {
	c := config{meters: otel.GetMeterProvider(), tracers: otel.GetTracerProvider()}
	for _, o := range options {
		o(&c)
	}
	return c
}

// scope is the name of the instrumentation.
const scope = "github.com/holdfast-go/holdfast/otelholdfast"
