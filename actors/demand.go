package actors

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/holdfast-go/holdfast/actors/pubsub"
	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/scripts"
)

// demand is an actor that exists if Options.Linger is set. It receives a message when another contender is refused a lock of this process, and when
// a lock of this process is released by force. It passes the message on to the lock's actors. Messages that are published before the first
// subscription or while the connection is broken are lost. So after each subscription, all locks of this process are treated as wanted by other
// processes. Even if a message is lost in another way, the next one follows within about a second, because waiters ask Redis every second, and each
// refusal publishes a message.
type demand struct {
	engine *Engine
	self   *actor.PID
}

// Send gives the actor a message of the channel.
func (d *demand) Send(message any) { d.engine.root.Send(d.self, message) }

// Receive is the actor's only entry.
func (d *demand) Receive(c actor.Context) {
	defer d.engine.events.RecoverIn("demand")
	switch m := c.Message().(type) {
	case *actor.Started:
		d.self = c.Self()
		c.Send(d.engine.subscriber, pubsub.Subscribe{Channel: scripts.DemandChannel(d.engine.id), Who: d})
	case wait.ChannelReady:
		d.engine.registry.demandsMissed()
	case wait.ChannelMessage:
		for text := range m.Texts {
			grant, key, freed := scripts.ReadDemand(text)
			d.engine.registry.demanded(key, wait.Demanded{Grant: grant, Freed: freed})
		}
	}
}
