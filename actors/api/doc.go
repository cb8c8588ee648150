// Package api is the engine's side of the actor message API: it turns the messages of package protocol into requests, and answers into messages.
//
// A front, the actor that receives the messages of users' actors, calls Read with each message, and passes the request to the registry.
// The engine calls Answer when the lock's actor has answered the request. Messages to users' actors go through the outbox. Nothing here
// decides anything about locks.
package api
