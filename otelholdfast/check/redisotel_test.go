package check_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/extra/redisotel/v9"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/otelholdfast"
)

func traced(client redis.UniversalClient) (*holdfast.Runtime, metric.Registration, error) {
	rt, err := holdfast.New(client, holdfast.Options{SlowWait: 5 * time.Second, Trace: otelholdfast.Trace()})
	if err != nil {
		return nil, nil, err
	}
	registration, err := otelholdfast.Observe(rt) // to be unregistered when rt is closed
	return rt, registration, err
}

func instrument(client redis.UniversalClient) error {
	return redisotel.InstrumentTracing(client, redisotel.WithDialFilter(true),
		redisotel.WithCommandFilter(func(c redis.Cmder) bool { return c.Name() == "hello" }),
		redisotel.WithCommandsFilter(func(cmds []redis.Cmder) bool {
			last := cmds[len(cmds)-1].Name()
			return last == "ping" || last == "client"
		}))
}

// The runtime and the program share a traced client. With the filters of doc/telemetry.md, only the program's own calls have spans.
func TestRedisotel_FiltersLeaveTheProgramsSpans(t *testing.T) {
	own := *holdfasttest.New(t).Client().(*redis.Client).Options()
	client := redis.NewClient(&own)
	defer func() { assert.NoError(t, client.Close()) }()
	spans := tracetest.NewSpanRecorder()
	tracer := trace.NewTracerProvider(trace.WithSpanProcessor(spans))
	before := otel.GetTracerProvider()
	otel.SetTracerProvider(tracer)
	defer otel.SetTracerProvider(before)
	require.NoError(t, instrument(client))
	rt, registration, err := traced(client)
	require.NoError(t, err)

	ctx, request := tracer.Tracer("test").Start(t.Context(), "request")
	require.NoError(t, rt.Lock("orders").Do(ctx, func(ctx context.Context) error { return client.Set(ctx, "order", 1, 0).Err() }))
	request.End()
	require.NoError(t, rt.Close(t.Context()))
	require.NoError(t, registration.Unregister())

	parents := map[string]string{}
	for _, s := range spans.Ended() {
		parents[s.Name()] = s.Parent().SpanID().String()
	}
	is := request.SpanContext().SpanID().String()
	assert.Equal(t, map[string]string{"holdfast.acquire": is, "set": is, "request": "0000000000000000"}, parents)
}
