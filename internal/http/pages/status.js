'use strict';
// An address with a name and password in it works once, and then not for what the page itself asks for.
const here = new URL(document.URL);
if (here.username || here.password) {
  here.username = here.password = '';
  location.replace(here);
}
// Puts the page's newest content in place of what is shown, without a reload: what somebody reads stays where it is.
const pause = 5000;
const silent = document.getElementById('silent');
let heard = new Date();

async function refresh() {
  const answer = await fetch(location.href, {headers: {Accept: 'text/html'}, signal: AbortSignal.timeout(4 * pause)});
  if (!answer.ok) throw new Error(`it answered ${answer.status}`);
  const next = new DOMParser().parseFromString(await answer.text(), 'text/html');
  const main = next.querySelector('main');
  if (!main) throw new Error('its answer was not this page');
  heard = new Date();
  silent.hidden = true;
  document.title = next.title;
  // Somebody is marking text in it to copy: the next time, then.
  if (!getSelection().isCollapsed) return;
  document.querySelector('main').replaceWith(main);
}

async function loop() {
  if (!document.hidden) {
    try {
      await refresh();
    } catch (e) {
      silent.textContent = `kvm2d was last heard of at ${heard.toLocaleTimeString()}: ${e.message}`;
      silent.hidden = false;
    }
  }
  setTimeout(loop, pause);
}
setTimeout(loop, pause);
