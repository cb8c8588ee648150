// Package web is a page that shows the locks of a Redis: who holds them, for how much longer, and who waits. It is an http.Handler for a
// service of your own, which may mount it under any prefix, with http.StripPrefix or without:
//
//	mux.Handle("/locks/", authenticated(web.Handler(client, web.Options{})))
//
// The page does not authenticate its viewers. Mount it behind the authentication of the service. It only reads, unless Options.AllowFree is set.
// Even with AllowFree, requests from other sites cannot free a lock.
//
// While somebody watches, the page looks at Redis at most once per second, no matter how many viewers there are; after a look that takes long, it
// rests for four times as long. When nobody watches it does nothing, so there is nothing to close. It reads all keys with SCAN, looks with some short
// commands at each that is in use and matches Options.Pattern, and counts the waiters. SECURITY.md lists the rights that it needs under "Rights to
// look". A name's history begins when the page is opened, and is forgotten when nobody has watched for ten seconds.
//
// The page works without JavaScript. With JavaScript it is live, by server-sent events. Streams of events end after five minutes, and
// browsers open them again. http.Server.Shutdown waits for them, unless the context of their requests ends: see the example.
package web
