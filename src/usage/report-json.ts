import { type OpenReport, type ReportedUsage, secondsIn } from './report.ts';

/**
 * Yields a report as JSON, as its records are read: the report of a busy month has more characters than a string can have.
 * @param first the records that were read first
 */
export async function* jsonOfReport(
  { records, ...head }: OpenReport,
  first: ReportedUsage[],
): AsyncGenerator<string> {
  yield `${JSON.stringify(head).slice(0, -1)},"records":[`;
  let totalS = secondsIn(first);
  yield linesOf(first);
  let isFirst = first.length === 0;
  for await (const some of records) {
    totalS += secondsIn(some);
    yield (isFirst ? '' : ',') + linesOf(some);
    isFirst = false;
  }
  yield `],"total_seconds":${Math.round(totalS * 1000) / 1000}}`;
}

const linesOf = (records: ReportedUsage[]) => JSON.stringify(records).slice(1, -1);
