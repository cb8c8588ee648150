// Package browsertest opens the page of package web in a real browser, and takes the pictures of it in doc. It is a module of its own, so that the
// library does not depend on what drives the browser.
package browsertest
