// Package browsertest opens the page of package web in a real browser. It also takes the pictures of the page in the folder doc. It is a module of
// its own, so that the main module does not depend on the driver of the browser.
package browsertest
