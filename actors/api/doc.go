// Package api is the actor message API inside the engine: it turns the messages of package protocol into requests, and answers into messages.
//
// A front actor calls Read with each message of a user's actor, and passes the request to the registry. The engine calls Answer when the
// lock's actor has answered it. Messages to users' actors go through the outbox. Nothing here decides anything about locks.
package api
