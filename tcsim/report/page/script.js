'use strict';
// Tabs: arrow keys move between them, as in the ARIA pattern.
for (const list of document.querySelectorAll('[role=tablist]')) {
  const tabs = [...list.querySelectorAll('[role=tab]')];
  const show = tab => {
    for (const t of tabs) {
      const on = t === tab;
      t.setAttribute('aria-selected', on);
      t.tabIndex = on ? 0 : -1;
      document.getElementById(t.getAttribute('aria-controls')).hidden = !on;
    }
    window.dispatchEvent(new Event('resize'));
  };
  tabs.forEach((tab, i) => {
    tab.addEventListener('click', () => show(tab));
    tab.addEventListener('keydown', e => {
      const step = {ArrowRight: 1, ArrowLeft: -1}[e.key];
      const to = e.key === 'Home' ? 0 : e.key === 'End' ? tabs.length - 1 : step ? (i + step + tabs.length) % tabs.length : -1;
      if (to >= 0) { tabs[to].focus(); show(tabs[to]); e.preventDefault(); }
    });
  });
  show(tabs[0]);
}

// Launches: one is shown at a time.
const chooser = document.getElementById('launch');
if (chooser) {
  const choose = () => {
    for (const part of document.querySelectorAll('[data-launch]')) part.hidden = part.dataset.launch !== chooser.value;
    window.dispatchEvent(new Event('resize'));
  };
  chooser.addEventListener('change', choose);
  choose();
}

// Source views: radio buttons choose CUDA lines, PTX lines or instructions; a box shows a column for every stall reason.
for (const group of document.querySelectorAll('.views')) {
  group.addEventListener('change', e => {
    if (e.target.type === 'checkbox') { group.parentElement.classList.toggle('every-reason', e.target.checked); return; }
    for (const input of group.querySelectorAll('input[type=radio]')) document.getElementById(input.value).hidden = input !== e.target;
  });
}

// Tables: a click on a heading sorts by it, a second one the other way.
for (const table of document.querySelectorAll('table.sortable')) {
  table.querySelectorAll('thead th').forEach((head, column) => {
    const button = head.querySelector('button');
    button.addEventListener('click', () => {
      const down = head.getAttribute('aria-sort') !== 'descending';
      for (const other of table.querySelectorAll('th')) other.removeAttribute('aria-sort');
      head.setAttribute('aria-sort', down ? 'descending' : 'ascending');
      const key = row => { const c = row.cells[column]; return c.dataset.value === undefined ? c.textContent : +c.dataset.value; };
      const body = table.tBodies[0];
      const rows = [...body.rows].sort((a, b) => { const x = key(a), y = key(b); return (x < y ? -1 : x > y ? 1 : 0) * (down ? -1 : 1); });
      body.append(...rows);
    });
  });
}

// Timelines: a canvas with tracks; left and right move, + and - zoom, up and down scroll.
for (const canvas of document.querySelectorAll('canvas.timeline')) {
  const data = JSON.parse(document.getElementById(canvas.dataset.tracks).textContent);
  const tip = document.getElementById(canvas.dataset.tip);
  const rowHeight = 18, left = 190, top = 22;
  const first = Math.min(...data.tracks.map(t => t.slices[0][0])), last = Math.max(...data.tracks.map(t => t.slices[t.slices.length - 1][1]));
  let from = first, to = last, scroll = 0;
  const style = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const at = cycle => left + (cycle - from) / (to - from) * (canvas.clientWidth - left);
  const draw = () => {
    const width = canvas.clientWidth, height = canvas.clientHeight, ratio = window.devicePixelRatio || 1;
    if (!width) return;
    canvas.width = width * ratio; canvas.height = height * ratio;
    const c = canvas.getContext('2d');
    c.scale(ratio, ratio);
    c.font = '11px system-ui, sans-serif';
    c.fillStyle = style('--page'); c.fillRect(0, 0, width, height);
    const rough = (to - from) / Math.max(2, (width - left) / 80), decade = Math.pow(10, Math.floor(Math.log10(rough)));
    const step = Math.max(1, decade * [1, 2, 5, 10].find(m => m * decade >= rough));
    c.fillStyle = style('--soft'); c.strokeStyle = style('--edge');
    for (let t = Math.ceil(from / step) * step; t <= to; t += step) {
      c.beginPath(); c.moveTo(at(t), top - 4); c.lineTo(at(t), height); c.stroke();
      c.fillText(t.toLocaleString('en'), at(t) + 2, 12);
    }
    data.tracks.forEach((track, row) => {
      const y = top + (row - scroll) * rowHeight;
      if (y < top - 1 || y > height) return;
      for (const [start, end, name] of track.slices) {
        if (end < from || start > to) continue;
        const x = Math.max(left, at(start)), w = Math.max(0.7, at(end) - x);
        if (x > width) break;
        c.fillStyle = data.colours[data.names[name]] || '#8c959f';
        c.fillRect(x, y, w, rowHeight - 3);
        if (w > 46) { c.save(); c.beginPath(); c.rect(x, y, w, rowHeight); c.clip(); c.fillStyle = '#111'; c.fillText(data.names[name], x + 3, y + 11); c.restore(); }
      }
      c.fillStyle = style('--page'); c.fillRect(0, y, left - 2, rowHeight);
      c.fillStyle = style('--word'); c.fillText(track.name, 4, y + 11);
    });
  };
  const clamp = () => {
    const span = Math.min(to - from, last - first);
    from = Math.max(first, Math.min(from, last - span)); to = from + Math.max(span, 10);
    scroll = Math.max(0, Math.min(scroll, data.tracks.length - 3));
    draw();
  };
  const zoom = (factor, middle) => { const span = (to - from) * factor; from = middle - (middle - from) * factor; to = from + span; clamp(); };
  canvas.addEventListener('keydown', e => {
    const span = to - from;
    if (e.key === 'ArrowLeft') { from -= span / 8; to -= span / 8; }
    else if (e.key === 'ArrowRight') { from += span / 8; to += span / 8; }
    else if (e.key === 'ArrowUp') scroll -= 3;
    else if (e.key === 'ArrowDown') scroll += 3;
    else if (e.key === '+' || e.key === '=') return zoom(0.6, (from + to) / 2);
    else if (e.key === '-') return zoom(1 / 0.6, (from + to) / 2);
    else if (e.key === 'Home') { from = first; to = last; scroll = 0; }
    else return;
    e.preventDefault(); clamp();
  });
  canvas.addEventListener('wheel', e => {
    if (!e.ctrlKey && !e.metaKey) return;
    e.preventDefault();
    zoom(e.deltaY > 0 ? 1.25 : 0.8, from + (e.offsetX - left) / (canvas.clientWidth - left) * (to - from));
  }, {passive: false});
  canvas.addEventListener('pointermove', e => {
    const track = data.tracks[Math.floor((e.offsetY - top) / rowHeight) + scroll];
    const cycle = from + (e.offsetX - left) / (canvas.clientWidth - left) * (to - from);
    const hit = track && track.slices.find(([start, end]) => start <= cycle && cycle < Math.max(end, start + (to - from) / 400));
    tip.textContent = hit ? `${track.name}: ${data.names[hit[2]]}, cycles ${hit[0].toLocaleString('en')} to ${hit[1].toLocaleString('en')}` : '';
  });
  let drag = null;
  canvas.addEventListener('pointerdown', e => { drag = [e.offsetX, from]; canvas.setPointerCapture(e.pointerId); });
  canvas.addEventListener('pointerup', () => { drag = null; });
  canvas.addEventListener('pointermove', e => {
    if (!drag) return;
    const span = to - from;
    from = drag[1] - (e.offsetX - drag[0]) / (canvas.clientWidth - left) * span; to = from + span; clamp();
  });
  window.addEventListener('resize', draw);
  window.matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw);
  draw();
}
