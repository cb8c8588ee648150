// Package pubsub is the subscriber: it knows which actor waits on which channel, and keeps the connections for messages. It is sent
// Subscribe and Unsubscribe by the actors of names, and sends them wait.ChannelReady and wait.ChannelMessage.
//
//	subscriber.go     the actor: channels, who waits on them, what Redis refuses
//	link.go           one connection and its successors: it reads, writes subscriptions, and notices when it is dead
//	link_place.go     whether it is at the server that executes the scripts
//	subscriptions.go  what a connection was asked for and what the server has confirmed; pure
//
// It never loses a wake-up: whatever could have swallowed a message ends in a ChannelReady.
package pubsub
