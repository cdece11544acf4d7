// Package browser opens the page of package page in headless Chromium, and has tests only. It is
// a module of its own, so that nobody who requires this one gets what drives a browser.
//
// The tests want chromium and npm on the PATH: axe-core, which judges contrast and the like, is
// fetched when they run.
package browser
