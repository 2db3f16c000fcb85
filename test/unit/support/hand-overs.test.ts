import { runInNewContext } from 'node:vm';
import { expect, test } from 'vitest';
import { reporting } from '../../support/hand-overs.ts';

/** Runs a program whose last line is an expression; returns what its functions report, and the value of that line. */
function run(program: string) {
  const reports: unknown[] = [];
  const value: unknown = runInNewContext(reporting(program), {
    noteCalledWith: (values: unknown[]) => reports.push(values),
    noteReturned: (returned: unknown) => {
      reports.push(returned);
      return returned;
    },
  });
  return { reports, value };
}

test.each([
  ['a function', 'function f(a, b) { return a + b; } f(1, 2)', [[1, 2], 3], 3],
  ['an arrow with an expression', 'const f = (a) => a * 2; f(4)', [[4], 8], 8],
  ['an arrow with an object', 'const f = (a) => ({ a }); f(1).a', [[1], { a: 1 }], 1],
  [
    'arrows in arrows',
    'const f = (a) => (b) => a - b; f(3)(1)',
    [[3], expect.any(Function), [1], 2],
    2,
  ],
  [
    'parts of parameters',
    'const f = ({ a, b: [c] }, d = 4, ...e) => c; f({ a: 1, b: [2] })',
    [[1, 2, 4, []], 2],
    2,
  ],
  [
    'a method and a getter',
    'new (class { get x() { return 1; } m(a) { return this.x + a; } })().m(2)',
    [[2], [], 1, 3],
    3,
  ],
  ['a function that returns nothing', 'function f(a) { if (a) return; } f(1)', [[1]], undefined],
  [
    'a function within a returned value',
    'function f(a) { return [a].map((b) => b + 1); } f(1)[0]',
    [[1], [1], 2, [2]],
    2,
  ],
])('reporting() of %s', (_name, program, reports, value) => {
  expect(run(program)).toEqual({ reports, value });
});

test('reporting() keeps types, which Node takes out', () => {
  const text = reporting('const f = (a: number, { b }: { b: string }): string => b.repeat(a);');
  expect(text).toBe(
    'const f = (a: number, { b }: { b: string }): string => (noteCalledWith([a, b]), noteReturned(b.repeat(a)));',
  );
});
