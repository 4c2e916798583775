// Charts load their library when the first one is shown.
import { useEffect, useRef } from '../vendor/preact-hooks.js';
import { html } from '../html.js';

let library = null;

function load() {
  library ??= new Promise((resolve, reject) => {
    const style = document.createElement('link');
    style.rel = 'stylesheet';
    style.href = new URL('../vendor/uplot.css', import.meta.url);
    const script = document.createElement('script');
    script.src = new URL('../vendor/uplot.js', import.meta.url);
    script.onload = () => resolve(globalThis.uPlot);
    script.onerror = () => {
      library = null;
      reject(new Error('The chart could not be loaded.'));
    };
    document.head.append(style, script);
  });
  return library;
}

/**
 * A line chart. data: [[seconds since 1970], [values], ...], series: [{ label, color }]. The text says what the chart shows.
 */
export function Chart({ data, series, text, height = 160 }) {
  const root = useRef(null);
  const plot = useRef(null);
  useEffect(() => {
    let gone = false;
    let observer = null;
    load().then((uPlot) => {
      if (gone || !root.current) return;
      const style = getComputedStyle(document.documentElement);
      const axis = { stroke: style.getPropertyValue('--muted').trim(), grid: { stroke: style.getPropertyValue('--line').trim() } };
      plot.current = new uPlot(
        {
          width: root.current.clientWidth,
          height,
          axes: [axis, axis],
          series: [{}, ...series.map((each) => ({ label: each.label, stroke: style.getPropertyValue(each.color || '--accent').trim(), width: 1.5 }))],
        },
        data,
        root.current,
      );
      observer = new ResizeObserver(() => plot.current && plot.current.setSize({ width: root.current.clientWidth, height }));
      observer.observe(root.current);
    }, () => {});
    return () => {
      gone = true;
      if (observer) observer.disconnect();
      if (plot.current) plot.current.destroy();
      plot.current = null;
    };
  }, [JSON.stringify(series)]);
  useEffect(() => {
    if (plot.current) plot.current.setData(data);
  }, [data]);
  return html`<div class="chart" role="img" aria-label=${text} ref=${root}></div>`;
}
