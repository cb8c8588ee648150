// The page works without this script. With the script, the page shows changes as they arrive in the stream of events, counts leases down, and can be
// used with keys.
'use strict';
(() => {
  // The server escapes everything that comes from Redis. In browsers that know trusted types, only this policy may make markup.
  const asHTML = (html) => html;
  const policy = window.trustedTypes ? trustedTypes.createPolicy('holdfast', { createHTML: asHTML }) : { createHTML: asHTML };
  let ahead = Number(document.body.dataset.now) - performance.now(); // what to add to the browser's clock to get the server's, in ms

  // span is the function of the same name in text.go.
  const span = (ms) => {
    const s = Math.floor(Math.max(0, ms) / 1000), two = (n) => String(n).padStart(2, '0');
    if (s < 60) return s + ' s';
    if (s < 3600) return Math.floor(s / 60) + ' m ' + two(s % 60) + ' s';
    if (s < 86400) return Math.floor(s / 3600) + ' h ' + two(Math.floor(s / 60) % 60) + ' m';
    return Math.floor(s / 86400) + ' d ' + two(Math.floor(s / 3600) % 24) + ' h';
  };

  const write = (element, text) => { if (element.textContent !== text) element.textContent = text; };

  const tick = () => {
    const now = performance.now() + ahead;
    for (const lease of document.querySelectorAll('[data-until]')) {
      const left = Math.max(0, lease.dataset.until - now);
      lease.firstElementChild.value = left;
      write(lease.lastElementChild, span(left));
      lease.classList.toggle('over', left === 0);
    }
    for (const age of document.querySelectorAll('[data-since]')) write(age, span(now - age.dataset.since));
  };

  // morph changes an element in place so that it equals another one. Nodes that are the same stay, with the focus and the selection.
  const morph = (old, fresh) => {
    if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName) return void old.replaceWith(fresh);
    if (old.nodeType === Node.TEXT_NODE) {
      if (old.data !== fresh.data) old.data = fresh.data;
      return;
    }
    for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name)) old.removeAttribute(name);
    for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    if (fresh.matches('progress, [data-since], .left')) return; // tick writes them
    const olds = [...old.childNodes], freshes = [...fresh.childNodes];
    freshes.forEach((node, i) => (i < olds.length ? morph(olds[i], node) : old.append(node)));
    olds.slice(freshes.length).forEach((node) => node.remove());
  };

  const parse = (html) => {
    const template = document.createElement('template');
    template.innerHTML = policy.createHTML(html);
    return template.content.firstElementChild;
  };

  // apply brings one part up to date: the items that have changed, then their order.
  const apply = (part) => {
    const place = document.getElementById(part.id);
    if (!place) return;
    const has = new Map([...place.children].map((child) => [child.dataset.key, child]));
    for (const [key, html] of Object.entries(part.items || {})) {
      const fresh = parse(html);
      if (!has.has(key)) has.set(key, fresh);
      else morph(has.get(key), fresh);
    }
    if (!part.order) return;
    const focused = document.activeElement;
    part.order.forEach((key, i) => {
      const child = has.get(key);
      if (child && place.children[i] !== child) place.insertBefore(child, place.children[i] || null);
    });
    while (place.children.length > part.order.length) place.lastElementChild.remove();
    if (focused !== document.activeElement && focused.isConnected) focused.focus({ preventScroll: true });
  };

  let stream = null, again = 0, address = document.body.dataset.events;
  const close = () => { if (stream) stream.close(); stream = null; clearTimeout(again); };
  const open = () => {
    close();
    if (!address || document.hidden) return;
    stream = new EventSource(address);
    stream.onmessage = ({ data }) => {
      const event = JSON.parse(data);
      ahead = event.now - performance.now();
      document.body.classList.remove('stale');
      event.parts.forEach(apply);
      tick();
    };
    stream.onerror = () => {
      document.body.classList.add('stale');
      if (stream && stream.readyState === EventSource.CLOSED) again = setTimeout(open, 5000);
    };
  };
  document.addEventListener('visibilitychange', () => (document.hidden ? close() : open())); // a hidden page needs no events
  window.addEventListener('pageshow', ({ persisted }) => { if (persisted) open(); });
  window.addEventListener('pagehide', close);

  const form = document.getElementById('search'), field = form && form.elements.q;
  if (form) {
    form.classList.add('instant');
    let typed = 0;
    const search = () => {
      const query = new URLSearchParams([...new FormData(form)].filter(([, value]) => value)).toString();
      history.replaceState(null, '', query ? '?' + query : './');
      address = 'events?' + (query ? query + '&' : '') + 'view=list';
      open();
    };
    field.addEventListener('input', () => { clearTimeout(typed); typed = setTimeout(search, 150); });
    form.addEventListener('submit', (event) => { event.preventDefault(); search(); });
    document.querySelector('.keys').hidden = false;
  }

  document.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !form) return;
    const typing = event.target === field, links = [...document.querySelectorAll('#rows a')];
    const at = links.indexOf(document.activeElement);
    const move = (to) => { if (links[to]) links[to].focus(); event.preventDefault(); };
    if (typing && event.key === 'Escape') {
      if (field.value) { field.value = ''; field.dispatchEvent(new Event('input')); } else field.blur();
    } else if (event.key === 'ArrowDown' || (event.key === 'j' && !typing)) move(at + 1);
    else if (!typing && (event.key === 'ArrowUp' || event.key === 'k')) at === 0 ? field.focus() : move(at - 1);
    else if (!typing && event.key === '/') { field.focus(); field.select(); event.preventDefault(); }
  });

  open();
  tick();
  setInterval(tick, 250);
})();
