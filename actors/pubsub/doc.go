// Package pubsub is the subscriber: it knows which actor waits on which channel, and keeps the connections for messages. The actors of names
// send it Subscribe and Unsubscribe, and it sends them wait.ChannelReady and wait.ChannelMessage.
//
//	subscriber.go     the actor: channels, their waiters, subscriptions that Redis refuses
//	link.go           replaces a connection that has broken, and collects what the actor has to know
//	connection.go     one connection: it reads, writes subscriptions, and notices when it is dead
//	link_server.go    whether the connection is at the server that executes the scripts
//	subscriptions.go  the channels that a connection should have, and those that the server has confirmed; pure
//
// The subscriber never loses a wake-up: whenever a message may have been lost, it sends a ChannelReady afterwards.
package pubsub
