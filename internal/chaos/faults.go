package chaos

import (
	"context"
	"strings"

	"github.com/holdfast-go/holdfast/internal/faultproxy"
)

// Links are the faults of a link.
var Links = []Fault{Cut, LostReplies, Silence, Blackhole, Delay, Refusal}

// Servers are the faults of a server that loses no data.
var Servers = []Fault{KilledSubscriptions, KilledClients, FlushedScripts, PausedClients, StoppedServer}

var (
	// Cut breaks the connections.
	Cut = Fault{"cut", 10, func(_ context.Context, at Target) { at.Link.Cut() }}
	// LostReplies drops the next one to three replies and breaks their connections.
	LostReplies = Fault{"lost replies", 10, func(ctx context.Context, at Target) {
		at.Link.DropReplies(1 + at.Dice.IntN(3))
		at.lasts(ctx)
		at.Link.Forget() // otherwise the fault could still hit a later request
	}}
	// Silence lets requests through, but no replies.
	Silence = Fault{"silence", 10, func(ctx context.Context, at Target) {
		at.Link.SwallowReplies(true)
		at.lasts(ctx)
		at.Link.SwallowReplies(false)
	}}
	// Blackhole lets nothing through. It may last for up to twice Target.Most.
	Blackhole = Fault{"blackhole", 10, func(ctx context.Context, at Target) {
		at.Link.Blackhole(true)
		at.lasts(ctx)
		at.lasts(ctx)
		at.Link.Blackhole(false)
	}}
	// Delay slows one direction down.
	Delay = Fault{"delay", 10, func(ctx context.Context, at Target) {
		direction := faultproxy.Direction(at.Dice.IntN(2))
		at.Link.Delay(direction, at.span())
		at.lasts(ctx)
		at.Link.Delay(direction, 0)
	}}
	// Refusal breaks the connections and refuses new ones.
	Refusal = Fault{"refused connections", 5, func(ctx context.Context, at Target) {
		at.Link.Refuse(true)
		at.Link.Cut()
		at.lasts(ctx)
		at.Link.Refuse(false)
	}}
)

var (
	// KilledSubscriptions breaks all connections that have subscriptions.
	KilledSubscriptions = Fault{"killed subscriptions", 10, func(ctx context.Context, at Target) {
		at.Redis.ClientKillByFilter(ctx, "TYPE", "pubsub")
	}}
	// KilledClients breaks all connections without subscriptions, except the one that kills them.
	KilledClients = Fault{"killed clients", 5, func(ctx context.Context, at Target) {
		at.Redis.ClientKillByFilter(ctx, "TYPE", "normal", "SKIPME", "yes")
	}}
	// KilledClient breaks one random connection, with or without subscriptions, but not the connection that sends the command.
	KilledClient = Fault{"killed client", 5, func(ctx context.Context, at Target) {
		if ids := others(at.Redis.ClientList(ctx).Val()); len(ids) > 0 {
			at.Redis.ClientKillByFilter(ctx, "ID", ids[at.Dice.IntN(len(ids))])
		}
	}}
	// FlushedScripts makes the server forget its scripts.
	FlushedScripts = Fault{"flushed scripts", 10, func(ctx context.Context, at Target) { at.Redis.ScriptFlush(ctx) }}
	// PausedClients makes the server answer nobody for a while.
	PausedClients = Fault{"paused clients", 5, func(ctx context.Context, at Target) {
		d := at.span()
		at.Redis.Do(ctx, "client", "pause", d.Milliseconds(), "all")
		Pause(ctx, d)
	}}
	// StoppedServer freezes the server's process for a while.
	StoppedServer = Fault{"stopped server", 5, func(ctx context.Context, at Target) {
		at.Server.Pause()
		at.lasts(ctx)
		at.Server.Resume()
	}}
)

// others returns the ids in a reply of CLIENT LIST. It leaves out connections whose last command was CLIENT, such as the one that asked for the list.
func others(list string) (ids []string) {
	for line := range strings.Lines(list) {
		id, rest, _ := strings.Cut(strings.TrimPrefix(line, "id="), " ")
		if !strings.Contains(rest, "cmd=client") {
			ids = append(ids, id)
		}
	}
	return ids
}
