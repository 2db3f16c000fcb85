import { chromium, type Locator } from 'playwright-core';

const CHROMIUM = '/usr/bin/chromium';
const VIEWPORT = { width: 2000, height: 900 };
const SCALE = 0.75;
const RANGE = '1m';
const MAX_GRAPHS = 10;
/** Leaves expressions, curves and their legends, five in a row. */
const STYLE = `
nav, #graph_container > .clearfix, .tab-pane > .clearfix, .form-inline, .nav-tabs, [name=remove], #add_graph { display: none !important; }
body { padding: 0 !important; }
#graph_container { display: grid; grid-template-columns: repeat(5, 1fr); gap: 4px; max-width: none; padding: 4px; }
.graph_wrapper, .graph_wrapper * { min-width: 0; }
.graph_wrapper .col-lg-10 { flex: 0 0 100%; max-width: 100%; }
.graph_wrapper textarea { font-size: 12px !important; height: 58px !important; overflow: hidden; }
.graph_wrapper .col-lg-2 { position: absolute; visibility: hidden; }
.legend { max-height: 66px; overflow: hidden; font-size: 10px !important; }
`;

/** Runs in the page, before anything else: curves take the width that they find. */
function addStyle(style: string): void {
  document.addEventListener('DOMContentLoaded', () => {
    document.head.append(Object.assign(document.createElement('style'), { textContent: style }));
  });
}

/** Runs in the page: whether Prometheus has answered for each graph. */
const areAnswered = (count: number) =>
  [...document.querySelectorAll('.graph_wrapper')].filter((graph) =>
    ['.eval_stats', '.error'].some((part) => graph.querySelector(part)?.textContent?.trim()),
  ).length === count;

const stateOf = async (graph: Locator) => ({
  expression: await graph.locator('textarea').inputValue(),
  curves: await graph.locator('.graph svg path').count(),
  error: await graph.locator('.error').innerText(),
});

/**
 * Has Prometheus draw expressions on its own page: the one that Debian ships, which takes ten at most.
 * @param screenshot prefix of files for pictures of them
 */
export async function drawGraphs(url: string, expressions: string[], screenshot?: string) {
  const browser = await chromium.launch({ executablePath: CHROMIUM, args: ['--no-sandbox'] });
  const graphs: Awaited<ReturnType<typeof stateOf>>[] = [];
  try {
    const page = await browser.newPage({ viewport: VIEWPORT, deviceScaleFactor: SCALE });
    await page.addInitScript(addStyle, STYLE);
    for (let at = 0; at < expressions.length; at += MAX_GRAPHS) {
      const some = expressions.slice(at, at + MAX_GRAPHS);
      await page.goto(`${url}/classic/graph?${new URLSearchParams(queryOf(some)).toString()}`);
      await page.waitForFunction(areAnswered, some.length);
      const path = `${screenshot}-${at / MAX_GRAPHS + 1}.png`;
      if (screenshot !== undefined) await page.screenshot({ path, fullPage: true });
      graphs.push(
        ...(await Promise.all((await page.locator('.graph_wrapper').all()).map(stateOf))),
      );
    }
    return graphs;
  } finally {
    await browser.close();
  }
}

const queryOf = (expressions: string[]): [string, string][] =>
  expressions.flatMap((expression, index) => [
    [`g${index}.expr`, expression],
    [`g${index}.tab`, '0'],
    [`g${index}.range_input`, RANGE],
  ]);
